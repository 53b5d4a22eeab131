"""Decodes what registries say: strict types, and one error that names the place.

Everything that a registry answers, and every document that it stores, is read here before anything else sees it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from envbuilder.errors import NetworkError
from envbuilder.language import tr

T = TypeVar("T")
HINT = "try again later, or name a mirror with --mirror"
# documents have a few levels; code that reads them may use recursion
_DEEPEST = 64
# the largest number of bytes that programs can count
_LARGEST, _LONGEST_NUMBER = 2**63, 19
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class AnswerError(NetworkError):
    """An answer of a registry is not what the protocol allows."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            tr("the answer of the registry for {name} is invalid: {reason}", name=name, reason=reason), hint=tr(HINT)
        )


@dataclass(frozen=True)
class Answer:
    """An answer, or a part of one. Its name, which is what was requested, and the place of the part are for errors."""

    content: dict[str, Any]
    name: str
    place: str = ""

    def text(self, key: str, default: str | None = None) -> str:
        return self._required(key, self._of(key, str, tr("a text")), default)

    def number(self, key: str) -> int:
        found: int = self._required(key, self._of(key, int, tr("a number")))
        if not 0 <= found < _LARGEST:
            raise self._wrong(key, tr("a number of bytes"))
        return found

    def digest(self, key: str) -> str:
        found = self.text(key)
        if _DIGEST.fullmatch(found) is None:
            raise self._wrong(key, tr("a digest"))
        return found

    def part(self, key: str) -> Answer:
        """Return the part with a name; it is empty if the answer does not have it."""
        return Answer(self._of(key, dict, tr("a document")) or {}, self.name, self._at(key))

    def parts(self, key: str) -> list[Answer]:
        """Return the parts in a list; there are none if the answer does not have it."""
        items = self._listed(key, dict, tr("a document"))
        return [Answer(item, self.name, place) for place, item in items]

    def texts(self, key: str) -> list[str]:
        return [item for _, item in self._listed(key, str, tr("a text"))]

    def pairs(self, key: str) -> dict[str, str]:
        """Return names with their texts, such as labels."""
        part = self.part(key)
        return {name: part.text(name) for name in part.content}

    def refuse(self, *keys: str) -> None:
        """Refuse an answer with parts that an answer of its kind cannot have."""
        for key in keys:
            if self.content.get(key) is not None:
                raise AnswerError(self.name, tr("{place} does not belong there", place=self._at(key)))

    def _of(self, key: str, kind: type[T], wanted: str) -> T | None:
        """Return a value, or None if it is null or absent, which is the same in the language of most registries."""
        found = self.content.get(key)
        # a bool is an int too
        if found is not None and type(found) is not kind:
            raise self._wrong(key, wanted)
        return found

    def _listed(self, key: str, kind: type[T], wanted: str) -> Iterator[tuple[str, T]]:
        found: list[Any] = self._of(key, list, tr("a list")) or []
        for number, item in enumerate(found):
            place = f"{key}[{number}]"
            if type(item) is not kind:
                raise self._wrong(place, wanted)
            yield self._at(place), item

    def _required(self, key: str, found: T | None, default: T | None = None) -> T:
        value = default if found is None else found
        if value is None:
            raise AnswerError(self.name, tr("it has no {place}", place=self._at(key)))
        return value

    def _at(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key

    def _wrong(self, key: str, wanted: str) -> AnswerError:
        return AnswerError(self.name, tr("{place} is not {wanted}", place=self._at(key), wanted=wanted))


class Descriptor(NamedTuple):
    """How a document of a registry refers to another one, or to a blob."""

    digest: str
    size: int
    media_type: str
    artifact_type: str
    architecture: str
    annotations: dict[str, str]


def descriptor(part: Answer) -> Descriptor:
    return Descriptor(
        digest=part.digest("digest"),
        size=part.number("size"),
        media_type=part.text("mediaType", ""),
        artifact_type=part.text("artifactType", ""),
        architecture=part.part("platform").text("architecture", ""),
        annotations=part.pairs("annotations"),
    )


def answer_of(content: bytes, name: str) -> Answer:
    """Return the document that a registry has for a name."""
    return Answer(document(content, name), name)


def document(content: bytes, name: str) -> dict[str, Any]:
    """Return a document as it is, of values that every program reads in the same way."""
    try:
        found = json.loads(
            content.decode(), object_pairs_hook=_unique, parse_int=_number, parse_constant=_refused_number
        )
        _require_plain(found)
    except (ValueError, RecursionError) as error:
        raise AnswerError(name, tr("it is not JSON")) from error
    if not isinstance(found, dict):
        raise AnswerError(name, tr("it is not a document"))
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse a name that occurs twice: programs differ in which value they take."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _number(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError
    return int(text)


def _refused_number(_: str) -> float:
    raise ValueError


def _require_plain(found: Any) -> None:
    """Refuse a deep document, a number that is too large, and a text that cannot be written."""
    level = [found]
    for _ in range(_DEEPEST):
        for item in level:
            if isinstance(item, str):
                item.encode()
            elif isinstance(item, float) and not math.isfinite(item):
                raise ValueError
        level = [inner for item in level for inner in _inside(item)]
        if not level:
            return
    raise ValueError


def _inside(item: Any) -> Iterable[Any]:
    if isinstance(item, dict):
        return (*item, *item.values())
    return item if isinstance(item, list) else ()
