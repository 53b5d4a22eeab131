"""Compares the version strings of all components.

PEP 440 cannot parse the versions of the vendor: `8.2.RC1.alpha003` (an alpha of a release candidate),
`25.0.rc1.1` (a patch of a release candidate), `9.0.0-beta.1`, tags such as `v0.7.3.post1`, `20250926`, `2026.8.18_v2`.
A version is a sequence of tokens, each a (rank, number, word); the end of a version ranks between the marks
of a pre-release (dev, alpha, beta, rc) and those of a later release (post, one more number).
For versions that PEP 440 can parse, the order is that of PEP 440; a test compares the two.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection
from functools import lru_cache
from operator import eq, ge, gt, le, lt, ne
from typing import TypeAlias

from envbuilder.language import tr

Token: TypeAlias = tuple[int, int, str]
Key: TypeAlias = tuple[tuple[Token, ...], tuple[Token, ...]]

_DEV, _ALPHA, _BETA, _RC, _END, _POST, _WORD, _NUMBER = range(8)
_TAGS = {
    "dev": _DEV,
    "a": _ALPHA, "alpha": _ALPHA,
    "b": _BETA, "beta": _BETA,
    "c": _RC, "rc": _RC, "pre": _RC, "preview": _RC,
    "post": _POST, "r": _POST, "rev": _POST, "v": _POST,
}  # fmt: skip
_COMPARE: dict[str, Callable[[Key, Key], bool]] = {
    "==": eq, "===": eq, "!=": ne, "<=": le, ">=": ge, "<": lt, ">": gt
}  # fmt: skip
_MOST_DIGITS = 100
_PIECE = re.compile(r"(\d+)|([a-z]+)")
_CLAUSE = re.compile(r"(===|==|!=|~=|<=|>=|<|>)\s*([0-9A-Za-z][0-9A-Za-z.+_*-]*)")


def _tokens(text: str) -> tuple[Token, ...]:
    pieces = [(number, word) for number, word in _PIECE.findall(text)]
    tokens: list[Token] = []
    position = 0
    while position < len(pieces):
        number, word = pieces[position]
        position += 1
        if number:
            tokens.append((_NUMBER, _value(number), ""))
            continue
        _drop_zeros(tokens)
        rank = _TAGS.get(word, _WORD)
        value = 0
        if position < len(pieces) and pieces[position][0]:
            value = _value(pieces[position][0])
            position += 1
        tokens.append((rank, value, word if rank == _WORD else ""))
    _drop_zeros(tokens)
    return (*tokens, (_END, 0, ""))


def _value(digits: str) -> int:
    """Return a number; Python refuses one of thousands of digits, which no version has."""
    return int(digits) if len(digits) <= _MOST_DIGITS else 10**_MOST_DIGITS


def _drop_zeros(tokens: list[Token]) -> None:
    # 2.6 and 2.6.0 are the same version, and so are 25.0.rc1 and 25.rc1
    while len(tokens) > 1 and tokens[-1] == (_NUMBER, 0, ""):
        tokens.pop()


@lru_cache(maxsize=4096)
def key(version: str) -> Key:
    """Return the sort key of a version; spellings of the same version have equal keys."""
    public, _, local = version.strip().lower().removeprefix("v").partition("+")
    return _tokens(public), _tokens(local) if local else ()


def same(left: str, right: str) -> bool:
    """Return whether two strings name one release; a local label (+cpu, +empty) only distinguishes builds."""
    return key(left)[0] == key(right)[0]


def public(version: str) -> str:
    """Return a version as package indexes spell it, without a leading `v` and a local label."""
    return version.removeprefix("v").partition("+")[0]


def is_prerelease(version: str) -> bool:
    """Return whether dev, alpha, beta or rc occurs anywhere in the version."""
    return any(token[0] < _END for token in key(version)[0])


def is_family(pattern: str) -> bool:
    """Return whether a pattern names a family of releases, such as `25.2.X`, instead of one."""
    return pattern.lower().endswith(".x")


def in_family(version: str, pattern: str) -> bool:
    """Return whether a version equals the pattern or is in the family that it names: `25.2.3` is in `25.2.X`."""
    if not is_family(pattern):
        return same(version, pattern)
    stem = _numbers(pattern[:-2])
    return _numbers(version)[: len(stem)] == stem


def series(version: str, length: int = 2) -> tuple[int, ...]:
    """Return the numbers that a version shares with its later patches: `(2, 10)` for `2.10.0.post4`."""
    return tuple(_numbers(version)[:length])


def _numbers(version: str) -> list[int]:
    release = re.match(r"\d+(\.\d+)*", public(version.lower()))
    return [_value(number) for number in release.group().split(".")] if release else []


def satisfies(version: str, specifier: str) -> bool:
    """Return whether a version meets every clause of a specifier such as `>=0.8.0,<=0.9.1,!=0.9.0`.

    A pre-release is treated like any other version, because a pin is deliberate.
    """
    return all(_meets(version, operator, bound) for operator, bound in clauses(specifier))


def clauses(specifier: str) -> list[tuple[str, str]]:
    """Return the (operator, version) pairs of a specifier; raise ValueError if it is invalid."""
    pairs = []
    for clause in filter(None, (part.strip() for part in specifier.split(","))):
        match = _CLAUSE.fullmatch(clause)
        if match is None:
            raise ValueError(tr("'{clause}' is not a version condition such as '>=1.2'", clause=clause))
        pairs.append((match[1], match[2]))
    return pairs


def _meets(version: str, operator: str, bound: str) -> bool:
    if bound.endswith(".*"):
        stem = _numbers(bound[:-2])
        padded = _numbers(version) + [0] * len(stem)
        return (padded[: len(stem)] == stem) == (operator == "==")
    if operator == "~=":
        stem = _numbers(bound)[:-1]
        return _meets(version, ">=", bound) and _numbers(version)[: len(stem)] == stem
    # a local label is compared only if the bound has one
    have, want = (key(version), key(bound)) if "+" in bound else ((key(version)[0], ()), (key(bound)[0], ()))
    # PEP 440: `<5` excludes the pre-releases of 5, and `>5` its post-releases
    excluded = {"<": range(_END), ">": (_POST,)}.get(operator, ())
    return _COMPARE[operator](have, want) and not _derives(version, bound, excluded)


def _derives(version: str, bound: str, ranks: Collection[int]) -> bool:
    """Return whether a version is the bound followed by a mark of these ranks (rc, post, ...)."""
    tokens = key(version)[0]
    stem = tuple(itertools.takewhile(lambda token: token[0] not in ranks, tokens))
    return len(stem) < len(tokens) and (*stem, (_END, 0, "")) == key(bound)[0]
