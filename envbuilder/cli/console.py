"""The only module that prints: data to standard output, messages to standard error."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, TextIO

from envbuilder.cli.columns import columns, lines, padded
from envbuilder.errors import EnvbuilderError, MatrixError, Problem
from envbuilder.language import tr

_STYLES = {
    "error": "1;31",
    "warning": "1;33",
    "accepted": "33",
    "info": "36",
    "hint": "1;36",
    "title": "1",
    "faint": "2",
    "added": "32",
    "removed": "31",
}
_CHART_LINES = 5
# characters that reverse the text after them, or that some programs read as the end of a line
_DIRECTIONS = r"\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
# texts of others (labels, logs, answers of servers) may contain sequences that move the cursor or rename the terminal
_UNSAFE = re.compile(rf"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f{_DIRECTIONS}]")
# JSON may have them as they are, and a terminal obeys them
_UNSAFE_IN_JSON = re.compile(rf"[\x7f-\x9f{_DIRECTIONS}]")


def printable(text: str) -> str:
    """Return the text without the sequences that control a terminal, except for colours."""
    return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str) -> str:
    """Return the text without line breaks: a label of an image must not look like a line of envbuilder."""
    return " ".join(text.splitlines()) if len(text.splitlines()) > 1 else text


def _indented(text: str) -> str:
    """Return a message whose further lines do not look like messages of their own."""
    return "\n  ".join(text.splitlines())


def _print(text: str, file: TextIO | None = None) -> None:
    print(printable(text), file=file)


class Console(NamedTuple):
    """Prints data and messages, with a verbosity, colours and live drawing."""

    verbosity: int = 0
    color: str = "auto"
    draws: bool = True

    def _colored(self, stream: TextIO) -> bool:
        if self.color == "auto":
            return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return self.color == "always"

    def style(self, text: str, name: str, stream: TextIO | None = None) -> str:
        return f"\x1b[{_STYLES[name]}m{text}\x1b[0m" if text and self._colored(stream or sys.stdout) else text

    @property
    def is_terminal(self) -> bool:
        return sys.stdout.isatty()

    @property
    def width(self) -> int:
        import shutil

        return shutil.get_terminal_size((100, 24)).columns

    def out(self, text: str = "") -> None:
        _print(text)

    def heading(self, text: str) -> None:
        _print(self.style(text, "title"))

    def section(self, title: str) -> None:
        """Print a heading after an empty line."""
        self.out()
        self.heading(title)

    def entry(self, title: str, text: str, *, indent: int = 0, width: int = 12) -> None:
        """Print a text beside its title."""
        self.wrapped(text, indent + width, "", first=" " * indent + padded(title, width))

    def data(self, value: Any) -> None:
        import json

        text = json.dumps(value, indent=2, ensure_ascii=False)
        print(_UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text))

    def warn(self, code: str, message: str, hint: str | None = None) -> None:
        """Print a warning that a rule has raised."""
        label = f"{tr('warning')}[{code}]"
        self.talk(f"{self.style(label, 'warning')} {_indented(message)}")
        if hint:
            self.talk(f"  {self.style(tr('hint: '), 'hint')}{_indented(hint)}")

    def talk(self, text: str = "", level: int = 0) -> None:
        """Print a message that -q silences (level 0) or only -v shows (level 1)."""
        if self.verbosity >= level:
            _print(text, file=sys.stderr)

    def error(self, error: EnvbuilderError) -> None:
        problems: Sequence[EnvbuilderError | Problem] = error.problems if isinstance(error, MatrixError) else [error]
        label = self.style(tr("error: "), "error", sys.stderr)
        for problem in problems:
            _print(f"{label}{_indented(tr(problem.message))}", file=sys.stderr)
            if problem.where is not None:
                _print(f"  --> {problem.where}", file=sys.stderr)
        if error.hint:
            hint = self.style(tr("hint: "), "hint", sys.stderr)
            _print(f"{hint}{_indented(error.hint)}", file=sys.stderr)

    @property
    def is_live(self) -> bool:
        """Return whether messages go to a terminal on which steps can be drawn."""
        return self.draws and self.verbosity >= 0 and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]], *, spare: Sequence[str] = ()) -> None:
        """Print aligned columns; a narrow terminal loses the `spare` ones first, then those on the right.

        The first column always stays.
        """
        rows = [[one_line(cell) for cell in row] for row in rows]
        widths = [max(map(columns, column)) for column in zip(header, *rows, strict=True)]
        shown = list(range(len(header)))
        dropped_next = [header.index(name) for name in spare]
        dropped_next += [at for at in reversed(shown[1:]) if at not in dropped_next]
        while dropped_next and sum(widths[at] + 2 for at in shown) - 2 > self.width:
            shown.remove(dropped_next.pop(0))
        title, *table = ("  ".join(padded(row[at], widths[at]) for at in shown).rstrip() for row in (header, *rows))
        self.heading(title)
        for line in table:
            _print(line)

    def chart(self, title: str, values: Sequence[float]) -> None:
        """Print a curve in a few lines of text."""
        bars = " ▁▂▃▄▅▆▇█"
        # a run that went wrong logs values that are not finite
        finite = [value for value in values if math.isfinite(value)]
        low, high = min([0.0, *finite]), max(finite, default=0.0)
        reach = (high - low) or 1.0
        wide = 2 if 2 * len(values) + 12 <= self.width else 1
        for row in reversed(range(_CHART_LINES)):
            filled = ((value - low) / reach * _CHART_LINES - row for value in values)
            line = "".join(bars[round(min(max(0.0, part), 1.0) * 8)] * wide for part in filled)
            scale = f"{high:8.3f}" if row == _CHART_LINES - 1 else f"{low:8.3f}" if row == 0 else " " * 8
            _print(f"{scale} │{line}".rstrip())
        _print(f"{' ' * 8} └{'─' * len(values) * wide}")
        _print(" " * 10 + tr("{name} in steps 1 to {last}", name=title, last=len(values)))

    def wrapped(self, text: str, indent: int, style: str = "faint", first: str | None = None) -> None:
        """Print a wrapped text; `first` replaces the indentation of the first line, and has the same width."""
        shown = [" " * indent + line for line in lines(text, min(self.width, 110) - indent)]
        if first is not None:
            shown[0] = first + shown[0][indent:]
        for line in shown:
            _print(self.style(line, style) if style else line)
