"""One order for every version string of this field.

PEP 440 does not read what the vendor writes: `8.2.RC1.alpha003` (an alpha of a release candidate),
`25.0.rc1.1` (a patch of one), `9.0.0-beta.1`, tags such as `v0.7.3.post1`, `20250926`, `2026.8.18_v2`.
Here a version is a row of tokens, each a (rank, number, word); the end of a version ranks between what
comes before a release (dev, alpha, beta, rc) and what comes after it (post, one more number).
On versions PEP 440 can read, the order is PEP 440's; a test compares the two.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

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
            tokens.append((_NUMBER, int(number), ""))
            continue
        _drop_zeros(tokens)
        rank = _TAGS.get(word, _WORD)
        value = 0
        if position < len(pieces) and pieces[position][0]:
            value = int(pieces[position][0])
            position += 1
        tokens.append((rank, value, word if rank == _WORD else ""))
    _drop_zeros(tokens)
    return (*tokens, (_END, 0, ""))


def _drop_zeros(tokens: list[Token]) -> None:
    # 2.6 and 2.6.0 are one version, and so are 25.0.rc1 and 25.rc1
    while len(tokens) > 1 and tokens[-1] == (_NUMBER, 0, ""):
        tokens.pop()


@lru_cache(maxsize=4096)
def key(version: str) -> Key:
    """Sort key of a version; equal keys mean one version written in two ways."""
    public, _, local = version.strip().lower().removeprefix("v").partition("+")
    return _tokens(public), _tokens(local) if local else ()


def same(left: str, right: str) -> bool:
    """Whether two strings name one release. A local label (+cpu, +empty) tells builds apart, not releases."""
    return key(left)[0] == key(right)[0]


def public(version: str) -> str:
    """The version as an index spells it: no leading `v`, no local label."""
    return version.removeprefix("v").partition("+")[0]


def is_prerelease(version: str) -> bool:
    """Whether dev, alpha, beta or rc occurs anywhere in the version."""
    return any(token[0] < _END for token in key(version)[0])


def is_family(pattern: str) -> bool:
    """Whether the vendor wrote a whole family of releases, `25.2.X`, instead of one."""
    return pattern.lower().endswith(".x")


def in_family(version: str, pattern: str) -> bool:
    """Whether a version is the one named, or belongs to the family named: `25.2.3` is in `25.2.X`."""
    if not is_family(pattern):
        return same(version, pattern)
    stem = _numbers(pattern[:-2])
    return _numbers(version)[: len(stem)] == stem


def _numbers(version: str) -> list[int]:
    release = re.match(r"\d+(\.\d+)*", public(version.lower()))
    return [int(number) for number in release.group().split(".")] if release else []


def satisfies(version: str, specifier: str) -> bool:
    """Whether a version meets every clause of a specifier such as `>=0.8.0,<=0.9.1,!=0.9.0`.

    A pre-release counts as any other version does: the pin was written on purpose.
    """
    return all(_meets(version, operator, bound) for operator, bound in clauses(specifier))


def clauses(specifier: str) -> list[tuple[str, str]]:
    """The (operator, version) pairs of a specifier; ValueError where it is none."""
    pairs = []
    for clause in filter(None, (part.strip() for part in specifier.split(","))):
        match = _CLAUSE.fullmatch(clause)
        if match is None:
            raise ValueError(f"'{clause}' is not a version condition such as '>=1.2'")
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
    # a local label matters only to a bound that names one itself
    have, want = (key(version), key(bound)) if "+" in bound else ((key(version)[0], ()), (key(bound)[0], ()))
    if operator in {"==", "==="}:
        return have == want
    if operator == "!=":
        return have != want
    if operator == "<=":
        return have <= want
    if operator == ">=":
        return have >= want
    # PEP 440: `<5` admits no pre-release of 5 itself, and `>5` no post-release of it
    if operator == "<":
        return have < want and not _derives(version, bound, _is_before_release)
    return have > want and not _derives(version, bound, lambda rank: rank == _POST)


def _is_before_release(rank: int) -> bool:
    return rank < _END


def _derives(version: str, bound: str, mark: Callable[[int], bool]) -> bool:
    """Whether a version is the bound plus a mark (rc, post, ...) and what follows it."""
    tokens = key(version)[0]
    stem = tuple(itertools.takewhile(lambda token: not mark(token[0]), tokens))
    return len(stem) < len(tokens) and (*stem, (_END, 0, "")) == key(bound)[0]
