"""What a console showed of a training run: verl and its SFT trainer, and OpenRLHF.

There are colours, prefixes of Ray, progress bars and other workers in between, lines that were wrapped or cut, and
numbers as numpy prints them.
"""

from __future__ import annotations

import re

from envbuilder.trainlog.step import Step

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# a number that a web page has made a link of
_LINK = re.compile(r"\[([^\[\]\n]*)\]\(https?://[^)\s]*\)")
NUMBER = r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)"
# as numpy and torch print a value of theirs
_WRAPPED = rf"(?:[a-z]+\.?\w*\()?({NUMBER})\)?"
# not `training/global_step:4`
_STEP = re.compile(r"(?<![\w/])step:(\d+)\b")
_PAIR = re.compile(rf"\s*-\s+([^\s:=]+):{_WRAPPED}(?=\s|$)", re.IGNORECASE)
# wrapped at a column, within a name or within a number. What follows tells: the next line of a log may be a number too
_TORN = re.compile(
    r"(-[ \t]+[^\s:=]+:[^\s:=]*)\r?\n([\w.+()-]*\d[\w.+()-]*|\))(?=[ \t]+-[ \t]+[^\s:=]+:)"
    r"|(-[ \t]+[^\s:=]+)\r?\n(?!step:)([^\s:=]*:)(?=[-+.\w])"
)
# a name and its number may both be torn; the number is known for one when the name behind it is whole
_PASSES = 2
_GLOBAL_STEP = re.compile(r"Global step (\d+): \{([^}]*)\}")
# the progress bars of OpenRLHF, drawn again and again with the metrics of the last step
_BAR = re.compile(r"(?:Episode \[\d+/\d+\]|Train step of epoch \d+):[^\r\n]*?\[[^\]\r\n]*?, ([a-z_]+=[^\]\r\n]*)\]")
_SHOWN = re.compile(rf"(\w+)=({NUMBER})(?=[,\s]|$)", re.IGNORECASE)
_ITEM = re.compile(rf"'([^']+)': {_WRAPPED}(?=[,\s]|$)", re.IGNORECASE)


def read_steps(text: str) -> list[Step]:
    """Every step that the log tells of, in its order."""
    clean = _LINK.sub(r"\1", _COLOUR.sub("", text))
    for _ in range(_PASSES):
        clean = _TORN.sub(_joined, clean)
    found = [(match.start(), _verl_step(clean, match)) for match in _STEP.finditer(clean)]
    found += [(match.start(), _openrlhf_step(match)) for match in _GLOBAL_STEP.finditer(clean)]
    if not found:
        return _bar_steps(clean)
    return [step for _, step in sorted(found, key=lambda item: item[0])]


def _joined(torn: re.Match[str]) -> str:
    return (torn[1] + torn[2]) if torn[1] else torn[3] + torn[4]


def _verl_step(text: str, start: re.Match[str]) -> Step:
    """`step:1 - key:value - key:value`, over as many lines as it was wrapped into."""
    metrics: dict[str, float] = {}
    position = start.end()
    while pair := _PAIR.match(text, position):
        if pair.end() == len(text) and not text.endswith("\n"):
            break  # the log ends here, perhaps in the middle of the number
        metrics[pair[1]] = float(pair[2])
        position = pair.end()
    return Step(int(start[1]), metrics)


def _bar_steps(text: str) -> list[Step]:
    """Each drawing that differs from the one before it is a step."""
    drawn = dict.fromkeys(match[1] for match in _BAR.finditer(text))
    return [
        Step(number, {name: float(value) for name, value in _SHOWN.findall(shown)})
        for number, shown in enumerate(drawn, 1)
    ]


def _openrlhf_step(match: re.Match[str]) -> Step:
    return Step(int(match[1]), {name: float(value) for name, value in _ITEM.findall(match[2])})
