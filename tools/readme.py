"""Fills in the parts of the READMEs that come from data: status, table of machines, outputs of commands."""

from __future__ import annotations

import io
import os
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from envbuilder.cli import cli
from envbuilder.cli.markdown import address
from envbuilder.environment import Catalog, Environment, Filters
from envbuilder.environment.proof import height

ROOT = Path(__file__).resolve().parent.parent
READMES = ("README.md", "README.zh-CN.md")
_REWARD = re.compile(r"<!-- reward (\S+) -->\n```\n(?:.*\n)*?```")
_RUN = re.compile(r"<!-- run (\d+) -->\n```console\n\$ envbuilder (.+)\n(?:.*\n)*?```")
_COLUMNS = "110"

_STATUS = {
    "README.md": (
        "**Status**: {total} environments, {locked} of them locked. Trained on NPUs: {npu}.\n"
        "Rehearsed on a stand-in of CANN: {rehearsed}. Trained on a CPU: {cpu}.\n"
        "[What each level proves](docs/matrix.md#what-is-proven)"
    ),
    "README.zh-CN.md": (
        "**现状**：共 {total} 个环境，其中 {locked} 个已锁定。在 NPU 上训练过：{npu}；"
        "在 CANN 模拟层上预演过：{rehearsed}；在 CPU 上训练过：{cpu}。\n"
        "[各级别证明什么](docs/matrix.md#what-is-proven)"
    ),
}
_CHOICES = {
    "README.md": ("I have", "I type", "I get", "a machine without NPUs", " and {count} more", "proven"),
    "README.zh-CN.md": ("我有", "输入", "得到", "没有 NPU 的机器", "，另有 {count} 款", "验证级别"),
}
_DRIVER = {
    "README.md": ("driver", "[{least} or later]({source})"),
    "README.zh-CN.md": ("驱动", "[{least} 或更新]({source})"),
}


def readmes(catalog: Catalog) -> dict[str, str]:
    return {name: _filled(name, (ROOT / name).read_text(encoding="utf-8"), catalog) for name in READMES}


def _filled(name: str, text: str, catalog: Catalog) -> str:
    for part, made in (("status", _status(name, catalog)), ("choices", _choices(name, catalog))):
        text = re.sub(rf"(<!-- {part} -->\n).*?(<!-- /{part} -->)", rf"\g<1>{made}\n\g<2>", text, flags=re.DOTALL)
    text = _REWARD.sub(lambda found: _reward(found[1], catalog), text)
    return _RUN.sub(lambda found: _output(int(found[1]), found[2]), text)


def _status(name: str, catalog: Catalog) -> str:
    levels = Counter(item.proven for item in catalog.environments)
    npu = sum(count for level, count in levels.items() if height(level) >= height("smoke-npu"))
    locked = sum(item.rank.is_locked for item in catalog.environments)
    total = len(catalog.environments)
    return _STATUS[name].format(
        total=total, locked=locked, npu=npu, rehearsed=levels["rehearsed"], cpu=levels["smoke-cpu"]
    )


def _reward(identifier: str, catalog: Catalog) -> str:
    """Return a block with the recorded reward of the last training of an environment."""
    *_, run = (item for item in catalog.pick(identifier).evidence if item.reward)
    line = f"reward {run.reward} in {run.steps} steps, {run.seconds_per_step} s each"
    return "\n".join((f"<!-- reward {identifier} -->", "```", line, "```"))


def families(name: str, catalog: Catalog) -> str:
    """Return the table of machines for a page of the site."""
    return _choices("README.zh-CN.md" if ".zh" in name else "README.md", catalog)


def _choices(name: str, catalog: Catalog) -> str:
    have, type_, get, none, more, proven = _CHOICES[name]
    driver, needed = _DRIVER[name]
    lines = [f"| {have} | {type_} | {get} | {driver} |", "| --- | --- | --- | --- |"]
    for key, hardware in sorted(catalog.hardware.items(), key=lambda item: item[1].cpu_only):
        if hardware.has_gpus:
            # nobody's own machine: the reference for one with NPUs, which a guide explains
            continue
        titles = [product.title for product in hardware.products.values()]
        shown = ", ".join(titles[:3]) + (more.format(count=len(titles) - 3) if len(titles) > 3 else "")
        machine = none if hardware.cpu_only else f"**{hardware.title}** ({', '.join(hardware.aliases)}): {shown}"
        defaults = [catalog.pick(None, Filters(hardware=key, arch=arch)) for arch in hardware.arches]
        drivers = "; ".join(dict.fromkeys(_driver(item, needed) for item in defaults))
        lines.append(f"| {machine} | `envbuilder build --hw {key}` | {_got(defaults, proven)} | {drivers} |")
    return "\n".join(lines)


def _driver(environment: Environment, needed: str) -> str:
    least = environment.least_driver
    return needed.format(least=least.version, source=address(least.source or "")) if least else "-"


def _got(defaults: Sequence[Environment], proven: str) -> str:
    """Return the default environments of a hardware; of each architecture, if they differ in more than their proof."""
    found: dict[tuple[str, str], list[Environment]] = {}
    for item in defaults:
        found.setdefault((item.branch.title, item.engine.engine), []).append(item)
    return "; ".join(
        f"{', '.join(item.coordinates.arch for item in alike)}: {_described(alike[0], proven)}"
        for alike in found.values()
    )


def _described(environment: Environment, proven: str) -> str:
    engine = environment.engine.engine
    parts = [environment.branch.title, f"{engine} {environment.version(engine)}"]
    if "cann" in environment.hardware.provides:
        parts.append(f"CANN {environment.version('cann')}")
    proof = environment.trained
    level = proof.evidence.level if proof else environment.proven
    on = f", {proof.arch}" if proof else ""
    return f"{', '.join(parts)} ({proven}: {level}{on})" if level else ", ".join(parts)


def _output(lines: int, words: str) -> str:
    """Return a block with a command and the first lines of what it prints."""
    out = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = _COLUMNS
    try:
        with redirect_stdout(out), redirect_stderr(io.StringIO()):
            cli.main(shlex.split(words), prog_name="envbuilder", standalone_mode=False)
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    printed = out.getvalue().splitlines()
    shown = [*printed[:lines], "..."] if len(printed) > lines else printed
    return "\n".join((f"<!-- run {lines} -->", "```console", f"$ envbuilder {words}", *shown, "```"))
