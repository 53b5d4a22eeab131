"""A report that users paste, and the parts of it that state what is installed now.

People also write about their earlier versions, about the requirements of a document, and about another machine. Such
parts are blanked for the readers of facts; every offset, and so every line number, stays.
"""

from __future__ import annotations

import re
from bisect import bisect
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

# a text of this length keeps only this number of the lines that differ only in numbers
_LONG, _ALIKE = 100_000, 20
# of a text that is still longer only the beginning and the end are read, as all patterns take seconds for this length
_MOST = 120_000
_LONGEST_LINE = 2_000
_OVERLONG = re.compile(
    rf"[^\n]{{{_LONGEST_LINE // 2},{_LONGEST_LINE}}}(?=[ ,;][^\n])|[^\n]{{{_LONGEST_LINE}}}(?=[^\n])"
)
_NUMBER, _FILLED = re.compile(r"\d+"), re.compile(r"[^\n]+")
# a command behind a comment sign was not run; a heading of Markdown is not a command
_COMMENTED = re.compile(
    r"^[ \t]*(?:#+|//|<!--)[ \t]*(?:\$ )?(?:export |set |-?[ \t]*(?:image|name)[:=]|(?:FROM|RUN|ENV|ARG) |\w+=|"
    r"pip3? |docker |conda |git |source |apt|yum |python3? |wget |curl |bash |[\w.-]+/[\w./-]+:[\w.-]+).*$",
    re.MULTILINE,
)
# output of tools, which is a fact even if it contains a word of the patterns below
_PRINTED = re.compile(
    r"^[ \t]*(?:[^\u4e00-\u9fff]*(?:\b(?:WARNING|ERROR|INFO)\b|Error: |File \"|Traceback)|\[(?:pip3?|conda)\]|"
    r"[A-Za-z][\w.-]*(?:==|[ \t]{2,})v?\d|Linux \S+ \d|Successfully |Name:|Version:|\||\+[-=+]|(?:export )?[A-Z_]+=|"
    r"package_name=|version=|[\w. -]+:[ \t]*v?\d[\w.+-]*[ \t]*$)",
    re.ASCII,
)
_CLAUSE = re.compile(
    r"[^,，。；;！？!?\n]+?(?=[,，。；;！？!?\n]|\.[ \t]|\.$|$|[ ](?:but|and now|now)[ ])", re.MULTILINE
)


def _any_of(english: str, chinese: str) -> re.Pattern[str]:
    """Return a pattern of words: English ones as whole words, several of them separated by a bar."""
    return re.compile(rf"\b(?:{english})\b|{chinese}", re.IGNORECASE)


# a clause with one of these is about the past
_PAST = _any_of(
    "previous(?:ly)?|formerly|earlier|used to|originally|at first|first (?:had|tried|used)|i had|we had|in the past|"
    "(?:also )?tried|was using|were using|old(?:er)? (?:version|image|environment)|back then|before(?=[ .)]*$)",
    "之前|以前|原来|原先|曾|试过|尝试过|先前|最初|一开始|换过|旧版|老版本",
)
# what follows one of these is wanted, or comes later
_WISH = _any_of(
    "requires?|needs?|wants?|should(?: be| use| install| have)?|must(?: be| have)?|expects?|recommends?|plans? to|"
    "would like|is there|when will|supports?|asks? for|depends on|according to|"
    r"(?:is|are|was) (?:built|compiled) (?:for|against|with)|(?<!\[)docs?|documents?|documentation|readme|guide|"
    "tutorial|table|page|manual|faq|how to|instead of|rather than|uninstall(?:s|ed|ing)?|replaces?|looking for|"
    "(?:upgrade|downgrade|update|switch|move)d? from|will (?:be )?(?:install|use|upgrade)(?:ed|d)?",
    "需要|要求|应该|应为|应当|建议|推荐|文档|教程|说明书|希望|想要|打算|计划|支持|何时|配套|依赖|卸载|替换|期望|想|它要|要装",
)
# a clause with one of these states a wish, too
_WANTED = _any_of(
    "(?:is|are) (?:required|needed|recommended|expected|supported)|or (?:later|newer|above|higher)|at least|"
    "does(?:n't| not) exist|exists|not found|works?(?: fine| well)?|is fine|no problem",
    "才行|才能|以上|及以上|版本吗|可以吗|正常|没问题|没有问题|是好的",
)
# after a line that ends like this, the next line states a wish
_ASKED = re.compile(rf"(?:{_WISH.pattern}).*[:：][ \t]*$", re.IGNORECASE)
# a line with one of these is about another machine
_ELSEWHERE = _any_of(
    "(?:the )?other machine|another (?:machine|server|user|person)|someone else|colleague",
    "能跑的机器|另一台|另一个|别的机器|别人",
)
# while pip builds a package, it prints this about a separate folder
_OF_PIP = re.compile(r"Successfully installed|but you have")
# `from 2.5.1 to 2.6.0`: the second is the present one
_CHANGED = re.compile(r"(?:from|从)[^\n,，。]{0,60}?(?:\bto\b|到|至|成|为)", re.IGNORECASE)
_HEADING = re.compile(r"^[ \t]*(?:#{1,6} .*|\*\*[^*\n]+\*\*:?|[^\n:：]{1,60}[:：])[ \t]*$", re.MULTILINE)
_WORKS = _any_of(r"works?|working|good|fine|succe\w+|normal|ok", "正常|没问题|没有问题|成功|可以运行|能跑")
_FAILS = _any_of(
    r"fail\w*|broken|bad|error\w*|not work\w*|(?:doesn't|does not|cannot) \w+|crash\w*",
    "报错|失败|异常|有问题|不行|不能|出错",
)
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
# a report with this number of Chinese characters is in Chinese
_MANY = 20


class Quote(NamedTuple):
    """A line of a report, with the number that it has in the user's file."""

    number: int
    text: str


@dataclass(frozen=True)
class PastedReport:
    """A text without the repetitions of a long log; `numbers` are those of its lines in the file."""

    text: str
    numbers: tuple[int, ...]
    # the first and the last line that were left out of a text that is too long
    left_out: tuple[int, int] | None = None

    @classmethod
    def of(cls, text: str) -> PastedReport:
        lines = condensed(text.replace("\r\n", "\n"))
        first, last = _ends(lines)
        kept = [*lines[:first], *lines[last:]]
        left_out = (lines[first][0], lines[last - 1][0]) if first < last else None
        return cls("\n".join(line for _, line in kept), tuple(number for number, _ in kept), left_out)

    def place(self, offset: int) -> int:
        """Return which line of this text an offset is in, counted from 0."""
        return self.text.count("\n", 0, offset)

    def quoted(self, place: int) -> Quote:
        return Quote(self.numbers[place], " ".join(self.text.split("\n")[place].split()))

    @cached_property
    def is_chinese(self) -> bool:
        """Whether its author writes Chinese."""
        return len(_CHINESE.findall(self.text)) >= _MANY

    @cached_property
    def said(self) -> str:
        """The text without commands that are commented out."""
        return _COMMENTED.sub(lambda match: " " * len(match[0]), self.text)

    @cached_property
    def present(self) -> str:
        """The text about the present state of this machine; the rest of the report is blank."""
        lines, said = _without_other_machines(self.said).split("\n"), self.said.split("\n")
        is_overlay = "pip-build-env" in self.text
        for number, line in enumerate(lines):
            follows_wish = number > 0 and "pip install" in line and _ASKED.search(said[number - 1])
            if follows_wish or _ELSEWHERE.search(line) or (is_overlay and _OF_PIP.search(line)):
                lines[number] = " " * len(line)
            elif not _PRINTED.match(line):
                lines[number] = _CLAUSE.sub(_only_present, line)
        return "\n".join(lines)


def condensed(text: str) -> list[tuple[int, str]]:
    """Return the lines of a text with their numbers, without overlong ones and the repetitions of a long log.

    Of lines that differ only in numbers the first few stay. An overlong line, such as JSON of a program, is split, as
    the time to search a line grows with its square.
    """
    lines = [
        (number, part)
        for number, line in _numbered(text)
        for part in (_OVERLONG.sub(r"\g<0>\n", line).split("\n") if len(line) > _LONGEST_LINE else (line,))
    ]
    if len(text) < _LONG:
        return lines
    seen: Counter[str] = Counter()
    kept = []
    for number, line in lines:
        alike = _NUMBER.sub("0", line)
        seen[alike] += 1
        if seen[alike] <= _ALIKE:
            kept.append((number, line))
    return kept


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text with their numbers; several empty lines of a long text are one."""
    if len(text) < _LONG:
        yield from enumerate(text.split("\n"), 1)
        return
    number, end = 1, 0
    for match in _FILLED.finditer(text):
        breaks = match.start() - end
        if breaks > 1:
            yield number + 1, ""
        number += breaks
        yield number, match[0]
        end = match.end()


def _ends(lines: Sequence[tuple[int, str]]) -> tuple[int, int]:
    """Return where the beginning of a long text ends, and where its end begins."""
    sizes = list(accumulate(len(line) + 1 for _, line in lines))
    if not sizes or sizes[-1] <= _MOST:
        return len(lines), len(lines)
    return bisect(sizes, _MOST // 2), bisect(sizes, sizes[-1] - _MOST // 2)


def _only_present(match: re.Match[str]) -> str:
    clause = match[0]
    if _PAST.search(clause) or _WANTED.search(clause):
        return " " * len(clause)
    if changed := _CHANGED.search(clause):
        return " " * changed.end() + clause[changed.end() :]
    if wish := _WISH.search(clause):
        return clause[: wish.start()] + " " * (len(clause) - wish.start())
    return clause


def _without_other_machines(text: str) -> str:
    """Blank the parts about other machines: those of other people, and one that works if another one fails."""
    titles = [(item.start(), item[0]) for item in _HEADING.finditer(text)]
    has_failing = any(_FAILS.search(title) for _, title in titles)
    for (start, title), end in zip(titles, [*(start for start, _ in titles[1:]), len(text)], strict=False):
        is_good = has_failing and _WORKS.search(title) and not _FAILS.search(title)
        if is_good or _ELSEWHERE.search(title):
            text = text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
    return text
