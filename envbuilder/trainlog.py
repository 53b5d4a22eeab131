"""Training logs, read into the metrics of their steps: verl and its SFT trainer, and OpenRLHF.

A log is what a console showed: with colours, prefixes of Ray, progress bars and other workers in between, lines that
were wrapped or cut, and numbers as numpy prints them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# a number that a web page has made a link of
_LINK = re.compile(r"\[([^\[\]\n]*)\]\(https?://[^)\s]*\)")
_NUMBER = r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)"
# not `training/global_step:4`
_STEP = re.compile(r"(?<![\w/])step:(\d+)\b")
_PAIR = re.compile(rf"\s*-\s+([^\s:=]+):(?:np\.\w+\()?({_NUMBER})\)?(?=\s|$)", re.IGNORECASE)
_GLOBAL_STEP = re.compile(r"Global step (\d+): \{([^}]*)\}")
# the progress bar of OpenRLHF, drawn again and again with the metrics of the last step
_EPISODE = re.compile(r"Episode \[\d+/\d+\]:[^\r\n]*?\[[^\]\r\n]*?, ([a-z_]+=[^\]\r\n]*)\]")
_SHOWN = re.compile(rf"(\w+)=({_NUMBER})(?=[,\s]|$)", re.IGNORECASE)
_ITEM = re.compile(rf"'([^']+)': ({_NUMBER})", re.IGNORECASE)


class Step(NamedTuple):
    """What one line of a log says about one step; a step may have several, as training and validation do."""

    number: int
    metrics: Mapping[str, float]


def read_steps(text: str) -> list[Step]:
    """Every step that the log tells of, in its order."""
    clean = _LINK.sub(r"\1", _COLOUR.sub("", text))
    found = [(match.start(), _verl_step(clean, match)) for match in _STEP.finditer(clean)]
    found += [(match.start(), _openrlhf_step(match)) for match in _GLOBAL_STEP.finditer(clean)]
    if not found:
        return _episode_steps(clean)
    return [step for _, step in sorted(found, key=lambda item: item[0])]


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


def _episode_steps(text: str) -> list[Step]:
    """Each drawing that differs from the one before it is a step."""
    drawn = dict.fromkeys(match[1] for match in _EPISODE.finditer(text))
    return [
        Step(number, {name: float(value) for name, value in _SHOWN.findall(shown)})
        for number, shown in enumerate(drawn, 1)
    ]


def _openrlhf_step(match: re.Match[str]) -> Step:
    return Step(int(match[1]), {name: float(value) for name, value in _ITEM.findall(match[2])})
