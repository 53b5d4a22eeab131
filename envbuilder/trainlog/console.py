"""Reads the console output of training runs: verl, its SFT trainer, OpenRLHF, ROLL, and any that prints a dictionary.

The output is mixed with colours, prefixes of Ray, progress bars and lines of other workers. Lines may be wrapped or
cut, and numbers may be printed as numpy does.
"""

from __future__ import annotations

import json
import re

from envbuilder.trainlog.step import LoggedStep

_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# a number that a web page turned into a link
_LINK = re.compile(r"\[([^\[\]\n]*)\]\(https?://[^)\s]*\)")
NUMBER = r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|nan|inf(?:inity)?)"
# a number as numpy or torch may print it; one that ends with a dot was cut
_WRAPPED = rf"(?:[a-z]+\.?\w*\()?({NUMBER})\)?(?<!\.)"
# not `training/global_step:4`; the fixed text comes first, which makes the search fast
_STEP = re.compile(r"step:(?<![\w/]step:)(\d{1,12})\b")
# a name may contain blanks and colons, as names of data sets do
_PAIR = re.compile(rf"\s*-\s+(\S(?:(?! - )[^\n])*?):{_WRAPPED}(?=\s|$)", re.IGNORECASE)
_NEXT = re.compile(r"(?<=\S)[ \t]+-[ \t](?=[^\n]*:)")
# a line that was wrapped within a number or a name: how its rest begins, and how the part before ends. The rest of a
# number is recognized by the name after it, as an unrelated line may begin with a number too
_GOES_ON = re.compile(
    r"\n(?:(?P<number>(?=\S*\d|\))[\w.+()-]+)(?=[ \t]+-[ \t]+[^\s:=]+:)|(?!step:)[^\s:=]*:(?=[-+.\w]))"
)
_IN_NUMBER, _IN_NAME = re.compile(r"-[ \t]+[^\s:=]+:[^\s:=]*$"), re.compile(r"-[ \t]+[^\s:=]+$")
_LONGEST_PAIR = 400
# a number and the name after it may both be wrapped; joining the name makes the number recognizable
_PASSES = 2
# the prefix that Ray gives to a line of a worker
_WORKER = r"\([^()\n]* pid=\d+[^()\n]*\)"
# Ray forwards what a worker has written so far, so the rest of a long line comes later, after lines of other workers
_BY_RAY = re.compile(rf"({_WORKER}) (.*)")
# or a progress bar, which Ray does not forward, is printed in the middle of the line
_INSERTED = re.compile(
    rf"({_WORKER} step:\d[^\n]*?)({_WORKER}[^\n]*(?:\n[^\n(]*\d/\d[^\n]*)?)"
    r"\n( ?(?:- )?(?!\()\S*(?: - [^\s:]+:\S+)+)"
)
_REST = re.compile(r" ?(?:- )?\S*(?: - [^\s:]+:\S+)*\s*")
_WHOLE = re.compile(rf" - \S+:{_WRAPPED}\s*$", re.IGNORECASE)
_GLOBAL_STEP = re.compile(r"Global step (\d{1,12}): \{")
# the end of a dictionary, or the text after one that was cut
_END = re.compile(r"\}|\n(?=\()|Global step ")
# the progress bars of OpenRLHF: which one, how much of it is done, and the metrics of the last step
_BAR = re.compile(
    r"(?:Episode \[(?P<episode>\d{1,12})/\d+\]|Train step of epoch (?P<epoch>\d{1,12})):[^\r\n]*?"
    r"(?P<done>\d{1,12})/(?P<total>\d{1,12}) \[[^\]\r\n]*?, (?P<shown>[a-z_]+=[^\]\r\n]*)\]"
)
_SHOWN = re.compile(rf"(\w+)=({NUMBER})(?=[,\s]|$)", re.IGNORECASE)
# a number may be in quotes
_ITEM = re.compile(rf"'([^']+)': '?{_WRAPPED}'?(?=[,}}])", re.IGNORECASE)
# a dictionary in one line that contains how many of the steps are done, as ms-swift prints it
_DICTIONARY = re.compile(r"\{'[^{}\n]*'global_step/max_steps': '(\d{1,12})/\d+'[^{}\n]*\}")
# the line of ROLL, which counts steps from zero
_TAGGED = re.compile(r'metrics_tag: (\{"step": \d{1,12}, "metrics": \{[^\n]*\}\})')


def read_steps(text: str) -> list[LoggedStep]:
    """Return every step of a log, in the order of the log."""
    clean = _with_split_steps_joined(_LINK.sub(r"\1", _COLOUR.sub("", text)))
    for _ in range(_PASSES):
        clean = _with_wrapped_lines_joined(clean)
    found = [(match.start(), _verl_step(clean, match)) for match in _STEP.finditer(clean)]
    found += [(match.start(), _openrlhf_step(clean, match)) for match in _GLOBAL_STEP.finditer(clean)]
    found += [
        (match.start(), LoggedStep(int(match[1]), _numbers(_ITEM, match[0]))) for match in _DICTIONARY.finditer(clean)
    ]
    found += [(match.start(), step) for match in _TAGGED.finditer(clean) if (step := _roll_step(match[1])) is not None]
    # text that a model wrote may look like the start of a step, but has no metrics
    steps = [step for _, step in sorted(found, key=lambda item: item[0]) if step.metrics]
    return steps or _bar_steps(clean)


def _roll_step(text: str) -> LoggedStep | None:
    """Return the step of a line of JSON, or None if something else was printed into it."""
    try:
        found = json.loads(text)
    except ValueError:
        return None
    metrics = {name: float(value) for name, value in found["metrics"].items() if isinstance(value, (int, float))}
    return LoggedStep(found["step"] + 1, metrics)


def _with_split_steps_joined(text: str) -> str:
    """Return the text with the two parts of every step that Ray has split in one line."""
    lines = _INSERTED.sub(r"\1\3\n\2\n", text).split("\n")
    begun: dict[str, int] = {}
    for number, line in enumerate(lines):
        forwarded = _BY_RAY.match(line)
        if forwarded is None:
            continue
        worker, words = forwarded.groups()
        if _STEP.match(words):
            begun[worker] = number
        elif worker in begun and words.strip() and _REST.fullmatch(words):
            step = lines[begun[worker]] + words
            # one word may be something else
            if _WHOLE.search(step):
                lines[begun[worker]], lines[number] = step, worker
    return "\n".join(lines)


def _with_wrapped_lines_joined(text: str) -> str:
    parts, done = [], 0
    for following in _GOES_ON.finditer(text):
        at = following.start() - text.endswith("\r", 0, following.start())
        wrapped = _IN_NUMBER if following["number"] else _IN_NAME
        if wrapped.search(text, max(done, at - _LONGEST_PAIR), at):
            parts.append(text[done:at])
            done = following.start() + 1
    return "".join(parts) + text[done:]


def _verl_step(text: str, start: re.Match[str]) -> LoggedStep:
    """Return the step of `step:1 - key:value - key:value`, wrapped or not, without the values that cannot be read."""
    metrics: dict[str, float] = {}
    position = start.end()
    while True:
        pair = _PAIR.match(text, position)
        if pair is None:
            end_of_line = text.find("\n", position)
            following = _NEXT.search(text, position + 1, end_of_line if end_of_line >= 0 else len(text))
            if following is None:
                break
            position = following.start()
        elif pair.end() == len(text) and not text.endswith("\n"):
            break  # the log ends here, perhaps in the middle of the number
        else:
            metrics[pair[1]] = float(pair[2])
            position = pair.end()
    return LoggedStep(int(start[1]), metrics)


def _bar_steps(text: str) -> list[LoggedStep]:
    """Return the steps that progress bars show.

    A bar counts finished steps, and is drawn with the metrics of the current step; then it counts that step and is
    drawn with the same metrics again. So the last drawing of a count belongs to the step after it.
    """
    drawn: dict[int, str] = {}
    for match in _BAR.finditer(text):
        # episodes are counted from one, epochs from zero
        before = int(match["episode"]) - 1 if match["episode"] else int(match["epoch"])
        done, total = int(match["done"]), int(match["total"])
        if done < total:
            drawn[before * total + done + 1] = match["shown"]
    last = next(reversed(drawn), 0)
    if len(drawn) > 1 and drawn.get(last - 1) == drawn[last]:
        # the log ends after a step was counted, and before the next one
        del drawn[last]
    return [LoggedStep(number, _numbers(_SHOWN, shown)) for number, shown in drawn.items()]


def _numbers(item: re.Pattern[str], text: str) -> dict[str, float]:
    return {name: float(value) for name, value in item.findall(text)}


def _openrlhf_step(text: str, start: re.Match[str]) -> LoggedStep:
    """Return the step of a dictionary, wrapped or not; of one that was cut, the complete items."""
    end = _END.search(text, start.end())
    items = text[start.end() : end.end() if end else len(text)].replace("\r", "").replace("\n", "")
    return LoggedStep(int(start[1]), _numbers(_ITEM, items))
