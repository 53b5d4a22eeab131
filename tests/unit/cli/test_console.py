"""Printed texts from elsewhere cannot control the terminal."""

from __future__ import annotations

import pytest

from envbuilder.cli.console import Console, printable
from envbuilder.errors import EnvbuilderError

# a title, a cleared screen, a moved cursor, an answer that would be typed, and a line that would be overwritten
HOSTILE = "verl\x1b]0;owned\x07\x1b[2J\x1b[1;1H\x9b5n\rfine\x7f"


def test_only_colours_and_lines_reach_the_terminal() -> None:
    assert printable("one\n\ttwo \x1b[1;31mred\x1b[0m 中文 é") == "one\n\ttwo \x1b[1;31mred\x1b[0m 中文 é"
    shown = printable(HOSTILE)
    assert not set(shown) & set("\x1b\x07\x9b\r\x7f")
    assert "verl" in shown and "fine" in shown


def test_every_way_to_print(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(color="always")
    console.out(HOSTILE)
    console.talk(HOSTILE)
    console.entry("image", HOSTILE)
    console.table(["IMAGE"], [[HOSTILE]])
    console.error(EnvbuilderError(HOSTILE, hint=HOSTILE))
    console.data({"label": HOSTILE})
    printed = "".join(capsys.readouterr())
    assert printed.count("fine") == 7
    for unsafe in ("\x07", "\r", "\x1b]", "\x1b[2J"):
        assert unsafe not in printed, repr(unsafe)
