"""Prints the report of a validation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envbuilder.cli.console import Console
from envbuilder.language import tr

if TYPE_CHECKING:
    from envbuilder.validate import Report, TrainingResult
    from envbuilder.validate.report import Account

# the most that is printed of each kind
_MOST = 10


def show_report(console: Console, report: Report) -> None:
    from envbuilder.validate import LEVELS

    rows = []
    for level in LEVELS:
        counts = report.count(level)
        if counts:
            numbers = (counts["passed"], counts["failed"], counts["not-checked"], f"{report.times[level]:.0f}")
            rows.append((level, *map(str, numbers)))
    console.table((tr("level"), tr("passed"), tr("failed"), tr("not checked"), tr("seconds")), rows)
    if report.fallback is not None:
        console.wrapped(_replaced(report), 0, "")
    if report.account is not None:
        _show_account(console, report.account)
    if report.training is not None:
        _show_training(console, report.training)
    reasons: dict[str, list[str]] = {}
    for check in report.checks:
        if check.status == "not-checked":
            reasons.setdefault(tr(check.message), []).append(check.name)
    if reasons:
        console.section(tr("not checked"))
        for reason, names in reasons.items():
            console.wrapped(tr("{reason}: {names}", reason=reason, names=", ".join(names)), 2, "")


def _replaced(report: Report) -> str:
    text = tr("{packages} of the package index replaces the build of the row", packages=report.fallback)
    return tr("{text}, and looks as built without CUDA", text=text) if report.device == "stand-in" else text


def _show_account(console: Console, account: Account) -> None:
    """Print where the files of an image come from, and what was added that may run by itself."""
    titles = {
        "Python package": tr("of Python packages"),
        "base image": tr("of the base image"),
        "byte code": tr("of byte code"),
        "plan": tr("of the plan"),
        "source tree": tr("of source trees"),
        "source tree without its archive": tr("of source trees without an archive on this machine"),
        "system package": tr("of system packages"),
    }
    kinds = tr(", ").join(f"{number} {titles.get(kind, kind)}" for kind, number in account.kinds.items())
    console.out()
    fields = {"files": account.files, "kinds": kinds, "lost": account.lost or tr("none")}
    console.wrapped(tr("{files} files: {kinds}; unaccounted for: {lost}", **fields), 0, "")
    console.wrapped(tr("layers of the base image: {layers}, {digest}", **account.base), 0, "")
    if not account.added:
        return
    console.section(tr("may run by itself, besides what the base image has"))
    for kind, names in account.added.items():
        # many packages offer something to others, each in a file of the same name
        is_named = kind == "plug-ins"
        shown = [
            package if is_named and (package := origin.partition(": ")[2]) else f"{name} ({origin})"
            for name, origin in names.items()
        ]
        more = [tr("{number} more in the report", number=len(shown) - _MOST)] if shown[_MOST:] else []
        console.wrapped(f"{kind}: {tr(', ').join([*shown[:_MOST], *more])}", 2, "")


def _show_training(console: Console, run: TrainingResult) -> None:
    console.out()
    trainer = tr("{trainer} with {backend}", trainer=run.trainer, backend=run.backend) if run.backend else run.trainer
    fields = {"trainer": trainer, "depth": run.depth, "device": f"{run.devices} {run.device}", "rollout": run.rollout}
    console.wrapped(tr("{trainer}, depth {depth}, on {device}; rollout: {rollout}", **fields), 0, "")
    if run.draws:
        console.wrapped(tr("samples drawn by {draws}", draws=run.draws), 0, "")
    if run.ours:
        console.wrapped(tr("envbuilder's code instead of upstream's: {ours}", ours="; ".join(run.ours)), 0, "")
    if run.curves.get("reward"):
        console.out()
        console.chart("reward", run.curves["reward"])
    if run.reward_first is not None and run.step_seconds is not None:
        console.out(
            tr(
                "reward {rise} in {steps} steps, {seconds} s each, {total} s in all",
                rise=f"{run.reward_first:.3f} -> {run.reward_last:.3f}",
                steps=run.steps,
                seconds=f"{run.step_seconds:.2f}",
                total=f"{run.seconds:.0f}",
            )
        )
