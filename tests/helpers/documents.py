"""Random JSON documents, and valid ones in which parts are replaced, removed or added at random."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

# what programs stumble over: other types, large numbers, letters that cannot be written, paths, addresses
_ODD: tuple[Any, ...] = (
    None, True, -1, 2**63, 10**30, 5.0, float("inf"), float("nan"), "", "\0", "\ud800", "\u202e", "a" * 1000, "sha256:",
    "../../x", "http://[", "sha256:" + "0" * 64, "sha512:" + "0" * 128, [], {}, [None], {"": None}, [[[[]]]],
)  # fmt: skip
# all letters of Unicode take a minute to prepare
_LETTERS = 'aZ09:/@=,. "\\\0\n\x9b\ud800\u202e密'


def values() -> st.SearchStrategy[Any]:
    """Return any value of JSON."""
    plain = st.sampled_from(_ODD) | st.integers() | st.floats() | st.text(_LETTERS) | st.booleans()
    return st.recursive(
        plain, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(_LETTERS), inner, max_size=3)
    )


@st.composite
def changed(draw: st.DrawFn, document: Any) -> Any:
    """Return a document with up to three changes."""
    found = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        places = list(_places(found))
        if not places:
            return draw(values())
        part, key = draw(st.sampled_from(places))
        if draw(st.booleans()):
            # a later change must not reach into the constants above
            part[key] = copy.deepcopy(draw(values()))
        else:
            del part[key]
    return found


@st.composite
def written(draw: st.DrawFn, document: Any) -> bytes:
    """Return a changed document as a server sends it, sometimes damaged."""
    content = json.dumps(draw(changed(document))).encode()
    damage = draw(st.integers(0, 9))
    if damage == 0:
        # the length of a signature differs in every run, and what is drawn must not
        at = draw(st.integers(0, 2**16)) % (len(content) + 1)
        return content[:at] + draw(st.binary(max_size=4)) + content[at:]
    if damage == 1:
        return b'{"a":' * draw(st.sampled_from([70, 900, 2000, 100_000])) + content
    return content


def _places(part: Any) -> Iterator[tuple[Any, Any]]:
    items = list(part.items()) if isinstance(part, dict) else list(enumerate(part)) if isinstance(part, list) else []
    for key, item in items:
        yield part, key
        yield from _places(item)
