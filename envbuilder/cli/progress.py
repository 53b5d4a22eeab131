"""Shows a build while it runs: as lines in a pipe, as a list of steps with their times on a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from envbuilder.cli.console import Console, printable
from envbuilder.language import tr
from envbuilder.progress import Progress

if TYPE_CHECKING:
    from rich.console import Console as Terminal
    from rich.console import RenderableType


@contextmanager
def shown(console: Console) -> Iterator[Progress]:
    """Yield a progress that is printed as lines, or drawn on a terminal while the block runs."""
    if not console.is_live:
        yield Lines(console)
        return
    from rich.console import Console as Terminal
    from rich.live import Live

    steps = StepList(Terminal(stderr=True, no_color=console.color == "never"))
    with Live(get_renderable=steps.render, console=steps.terminal, refresh_per_second=8):
        yield steps


class Lines:
    """Prints one line when a step starts, one when it ends, and with -v its output."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str) -> None:
        self._console.talk(text)

    def expect(self, titles: Sequence[str]) -> None:
        pass

    def started(self, title: str) -> None:
        self._console.talk(f"  {tr(title)} ...")

    def said(self, title: str, line: str) -> None:
        self._console.talk(f"    {line}", 1)

    def noted(self, title: str, line: str) -> None:
        self._console.talk(f"    {line}")

    def ended(self, title: str, how: str) -> None:
        self._console.talk(f"  {tr(title)}: {tr(how)}")


class StepList:
    """A list of all expected steps, redrawn a few times a second; a running step shows its last line of output."""

    def __init__(self, terminal: Terminal) -> None:
        from rich.spinner import Spinner

        self.terminal = terminal
        self._spinner = Spinner("dots")
        self._titles: list[str] = []
        self._began: dict[str, float] = {}
        self._ended: dict[str, str] = {}
        self._last_lines: dict[str, str] = {}

    def say(self, text: str) -> None:
        self.terminal.print(printable(text), highlight=False, markup=False, soft_wrap=True)

    def expect(self, titles: Sequence[str]) -> None:
        self._titles += titles

    def started(self, title: str) -> None:
        self._began[title] = time.monotonic()

    def said(self, title: str, line: str) -> None:
        self._last_lines[title] = printable(line)

    def noted(self, title: str, line: str) -> None:
        self.said(title, line)

    def ended(self, title: str, how: str) -> None:
        self._ended[title] = how

    def render(self) -> RenderableType:
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(width=1)
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for title in self._titles:
            how = self._ended.get(title)
            if how is not None:
                mark = Text("✗", "red") if how == "failed" else Text("✓", "green")
                table.add_row(mark, tr(title), Text(tr(how), "dim" if how == "cached" else ""), "")
            elif title in self._began:
                running = f"{time.monotonic() - self._began[title]:.0f} s"
                table.add_row(self._spinner, tr(title), running, Text(self._last_lines.get(title, ""), "dim"))
            else:
                table.add_row(Text("·", "dim"), Text(tr(title), "dim"), "", "")
        return table
