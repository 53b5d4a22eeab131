"""Printed texts from elsewhere cannot control the terminal."""

from __future__ import annotations

import json

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


def test_a_curve_with_values_that_are_not_finite_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    Console(color="never").chart("reward", [0.0, float("nan"), 1.0, float("-inf")])
    first, *_, last, _, title = capsys.readouterr().out.splitlines()
    assert first == "   1.000 │    ██" and last == "   0.000 │    ██" and title.endswith("reward in steps 1 to 4")
    Console(color="never").chart("reward", [float("nan")])


# C1 characters, a reversed text, marks of direction, and the ends of lines that JSON leaves as they are
HIDDEN = "\x7f\x85\x9b\u061c\u200e\u200f\u2028\u2029\u202a\u202e\u2066\u2069"


def test_json_has_no_character_that_a_terminal_obeys(capsys: pytest.CaptureFixture[str]) -> None:
    Console().data({HIDDEN: f"one{HIDDEN}two 中文 é"})
    printed = capsys.readouterr().out
    assert not set(printed) & set(HIDDEN) and "中文 é" in printed
    assert json.loads(printed) == {HIDDEN: f"one{HIDDEN}two 中文 é"}


def test_a_text_cannot_be_reversed() -> None:
    assert not set(printable(f"sglang{HIDDEN}gpj.exe")) & set(HIDDEN)


def test_a_label_cannot_forge_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    label = "verl\nerror: forged\r\nhint: forged\n  --> forged\x0bforged"
    console = Console(color="never")
    console.table(["IMAGE", "ENVIRONMENT"], [["one", label], ["two", "verl"]])
    console.error(EnvbuilderError(f"{label} is no image", hint=label))
    console.warn("code", label, label)
    console.entry("image", label)
    printed = "".join(capsys.readouterr()).splitlines()
    assert not [line for line in printed if line.startswith(("error: forged", "hint: forged", "forged"))]
    assert len([line for line in printed if line.startswith(("one", "two"))]) == 2
