"""The list of steps on a terminal, drawn into text."""

from __future__ import annotations

import io

from rich.console import Console as Terminal

from envbuilder.cli.console import Console
from envbuilder.cli.progress import StepList, shown


def drawn(width: int) -> tuple[StepList, list[str]]:
    terminal = Terminal(file=io.StringIO(), width=width)
    steps = StepList(terminal)
    steps.expect(["system packages", "vLLM compiled for the CPU", "wheels", "consistency"])
    steps.started("system packages")
    steps.ended("system packages", "cached")
    steps.started("vLLM compiled for the CPU")
    steps.said("vLLM compiled for the CPU", "[7/42] Building CXX object " + "x" * 200)
    steps.started("wheels")
    steps.ended("wheels", "failed")
    with terminal.capture() as captured:
        terminal.print(steps.render())
    return steps, [line.rstrip() for line in captured.get().splitlines()]


def test_every_step_has_one_line_that_fits() -> None:
    for width in (60, 100):
        _, lines = drawn(width)
        assert len(lines) == 4
        assert all(len(line) <= width for line in lines)
        assert lines[0].split() == ["✓", "system", "packages", "cached"]
        assert "0 s [7/42] Building CXX" in lines[1]
        assert lines[2].startswith("✗ wheels")
        assert lines[3] == "· consistency"


def test_steps_that_are_announced_later_are_appended() -> None:
    steps, _ = drawn(80)
    steps.expect(["tools"])
    with steps.terminal.capture() as captured:
        steps.terminal.print(steps.render())
    assert captured.get().splitlines()[3:] == ["· consistency".ljust(80), "· tools".ljust(80)]


def test_a_pipe_gets_no_step_list(capsys: object) -> None:
    with shown(Console()) as progress:
        assert not isinstance(progress, StepList)
