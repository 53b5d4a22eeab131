"""What a console showed of a training run: verl and its SFT trainer, and OpenRLHF.

There are colours, prefixes of Ray, progress bars and other workers in between, lines that were wrapped or cut, and
numbers as numpy prints them.
"""

from __future__ import annotations

import re

from envbuilder.trainlog.step import LoggedStep

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# a number that a web page has made a link of
_LINK = re.compile(r"\[([^\[\]\n]*)\]\(https?://[^)\s]*\)")
NUMBER = r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)"
# as numpy and torch print a value of theirs; a bare `0.` was cut
_WRAPPED = rf"(?:[a-z]+\.?\w*\()?({NUMBER})\)?(?<!\.)"
# not `training/global_step:4`; what is looked for comes first, which is quick
_STEP = re.compile(r"step:(?<![\w/]step:)(\d{1,12})\b")
# a name may hold blanks and colons, as those of data sets do
_PAIR = re.compile(rf"\s*-\s+(\S(?:(?! - )[^\n])*?):{_WRAPPED}(?=\s|$)", re.IGNORECASE)
_NEXT = re.compile(r"(?<=\S)[ \t]+-[ \t](?=[^\n]*:)")
# wrapped at a column, in a number or in a name: how a line goes on, and how the one before it ends. What follows
# a number tells: the next line of a log may be one too
_GOES_ON = re.compile(
    r"\n(?:(?P<number>(?=\S*\d|\))[\w.+()-]+)(?=[ \t]+-[ \t]+[^\s:=]+:)|(?!step:)[^\s:=]*:(?=[-+.\w]))"
)
_IN_NUMBER, _IN_NAME = re.compile(r"-[ \t]+[^\s:=]+:[^\s:=]*$"), re.compile(r"-[ \t]+[^\s:=]+$")
_LONGEST_PAIR = 400
# a name and its number may both be torn; the number is known for one when the name behind it is whole
_PASSES = 2
_GLOBAL_STEP = re.compile(r"Global step (\d{1,12}): \{")
# where a dictionary ends, or what comes after one that was cut
_END = re.compile(r"\}|\n(?=\()|Global step ")
# the progress bars of OpenRLHF: which one, how much of it is done, and the metrics of the last step
_BAR = re.compile(
    r"(?:Episode \[(?P<episode>\d+)/\d+\]|Train step of epoch (?P<epoch>\d+)):[^\r\n]*?"
    r"(?P<done>\d+)/(?P<total>\d+) \[[^\]\r\n]*?, (?P<shown>[a-z_]+=[^\]\r\n]*)\]"
)
_SHOWN = re.compile(rf"(\w+)=({NUMBER})(?=[,\s]|$)", re.IGNORECASE)
_ITEM = re.compile(rf"'([^']+)': {_WRAPPED}(?=[,}}])", re.IGNORECASE)


def read_steps(text: str) -> list[LoggedStep]:
    """Every step that the log tells of, in its order."""
    clean = _LINK.sub(r"\1", _COLOUR.sub("", text))
    for _ in range(_PASSES):
        clean = _mended(clean)
    found = [(match.start(), _verl_step(clean, match)) for match in _STEP.finditer(clean)]
    found += [(match.start(), _openrlhf_step(clean, match)) for match in _GLOBAL_STEP.finditer(clean)]
    # what a model wrote may look like the begin of a line
    told = [step for _, step in sorted(found, key=lambda item: item[0]) if step.metrics]
    return told or _bar_steps(clean)


def _mended(text: str) -> str:
    """With the lines whole that were wrapped."""
    parts, done = [], 0
    for following in _GOES_ON.finditer(text):
        at = following.start() - text.endswith("\r", 0, following.start())
        torn = _IN_NUMBER if following["number"] else _IN_NAME
        if torn.search(text, max(done, at - _LONGEST_PAIR), at):
            parts.append(text[done:at])
            done = following.start() + 1
    return "".join(parts) + text[done:]


def _verl_step(text: str, start: re.Match[str]) -> LoggedStep:
    """`step:1 - key:value - key:value`, over as many lines as it was wrapped into. What cannot be read is left out."""
    metrics: dict[str, float] = {}
    position = start.end()
    while True:
        pair = _PAIR.match(text, position)
        if pair is None:
            after = _NEXT.search(text, position + 1, _end_of_line(text, position))
            if after is None:
                return LoggedStep(int(start[1]), metrics)
            position = after.start()
            continue
        if pair.end() == len(text) and not text.endswith("\n"):
            return LoggedStep(int(start[1]), metrics)  # the log ends here, perhaps in the middle of the number
        metrics[pair[1]] = float(pair[2])
        position = pair.end()


def _end_of_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def _bar_steps(text: str) -> list[LoggedStep]:
    """A bar counts what is done, and is drawn with the metrics of the step that is under way; then it counts that one
    and is drawn with the same metrics again. So the last drawing of a count is of the step that follows it."""
    drawn: dict[int, str] = {}
    for match in _BAR.finditer(text):
        # episodes are counted from one, epochs from zero
        before = int(match["episode"]) - 1 if match["episode"] else int(match["epoch"])
        done, total = int(match["done"]), int(match["total"])
        if done < total:
            drawn[before * total + done + 1] = match["shown"]
    *_, last = [*drawn] or [0]
    if len(drawn) > 1 and drawn.get(last - 1) == drawn[last]:
        # the log ends after a step was counted, and before the next one
        del drawn[last]
    return [
        LoggedStep(number, {name: float(value) for name, value in _SHOWN.findall(shown)})
        for number, shown in drawn.items()
    ]


def _openrlhf_step(text: str, start: re.Match[str]) -> LoggedStep:
    """A dictionary, over as many lines as it was wrapped into; of one that was cut, what is whole."""
    end = _END.search(text, start.end())
    told = text[start.end() : end.end() if end else len(text)].replace("\r", "").replace("\n", "")
    return LoggedStep(int(start[1]), {name: float(value) for name, value in _ITEM.findall(told)})
