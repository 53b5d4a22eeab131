"""Prints the report of a validation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envbuilder.cli.console import Console

if TYPE_CHECKING:
    from envbuilder.validate import Report, TrainingResult


def show_report(console: Console, report: Report) -> None:
    from envbuilder.validate import LEVELS

    rows = []
    for level in LEVELS:
        counts = report.count(level)
        if counts:
            rows.append((level, *(str(counts[status]) for status in ("passed", "failed", "not-checked"))))
    console.table(("level", "passed", "failed", "not checked"), rows)
    if report.training is not None:
        _show_training(console, report.training)
    reasons: dict[str, list[str]] = {}
    for check in report.checks:
        if check.status == "not-checked":
            reasons.setdefault(check.message, []).append(check.name)
    if reasons:
        console.out()
        console.heading("not checked")
        for reason, names in reasons.items():
            console.wrapped(f"{reason}: {', '.join(names)}", 2, "")


def _show_training(console: Console, run: TrainingResult) -> None:
    console.out()
    with_ = f" with {run.backend}" if run.backend else ""
    summary = f"{run.trainer}{with_}, depth {run.depth}, on {run.devices} {run.device}; rollout: {run.rollout}"
    console.wrapped(summary, 0, "")
    if run.ours:
        console.wrapped(f"envbuilder's code instead of upstream's: {'; '.join(run.ours)}", 0, "")
    if run.curves.get("reward"):
        console.out()
        console.chart("reward", run.curves["reward"])
    if run.reward_first is not None and run.step_seconds is not None:
        rise = f"reward {run.reward_first:.3f} -> {run.reward_last:.3f} in {run.steps} steps"
        console.out(f"{rise}, {run.step_seconds:.2f} s each, {run.seconds:.0f} s in all")
