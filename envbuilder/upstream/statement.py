"""What one line of a file says about the version of a component."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeAlias

from envbuilder.matrix.model import Component

# one version, a range of them, a name of git, or that any version will do
ValueKind: TypeAlias = Literal["exact", "range", "reference", "any"]
_CONDITION = re.compile(r"(===?|~=|!=|<=|>=|<|>)\s*v?([\w.*+!]+)")
_VERSION = re.compile(r"v?\d+(\.\d+)+([.\-]?(rc|post|dev|beta\.?|alpha)\.?\d*)*(\+\w+)?", re.I)
_REFERENCE = re.compile(r"\(?([0-9a-f]{7,40}|(?:releases?/|core_|[\d.]+_core_|v\d)[\w./-]+)\)?$")
# tags of HTML, but not `<=0.10`; emphasis, but not `!=5.0.*`
_MARKUP = re.compile(r"</?[a-zA-Z][^>]*>|`__?|\*\*|[`\\]")
_RECOMMENDED = re.compile(r"推荐\s*v?([\d.]+)")
_NEWEST = re.compile(r"(?i)latest|最新")


class Value(NamedTuple):
    """What a cell of a table, or the condition of a requirement, says."""

    kind: ValueKind
    text: str


class Line(NamedTuple):
    """What a line of a file says about a component; line 0 is one of the build arguments."""

    component: str
    value: Value
    number: int


class Statement(NamedTuple):
    """What a file says about a component, with its authority."""

    component: str
    value: Value
    read: str
    # the file, and the line in it
    source: str
    line: int
    enforced: bool = False
    note: str = ""

    @property
    def place(self) -> str:
        return f"{self.source}#L{self.line}" if self.line else self.source


def values_of(text: str) -> Iterator[Value]:
    """Yield what a cell or a condition says: a recommended version besides a range is one more value."""
    text = _MARKUP.sub(" ", text).replace("，", ",").strip()  # a comma of Chinese texts
    if recommended := _RECOMMENDED.search(text):
        yield Value("exact", plain(recommended[1]))
        text = text[: recommended.start()].strip(" ,")
    if conditions := _CONDITION.findall(text):
        if len(conditions) == 1 and conditions[0][0].startswith("==") and "*" not in conditions[0][1]:
            yield Value("exact", plain(conditions[0][1]))
        else:
            yield Value("range", ",".join(operator + plain(version) for operator, version in conditions))
    elif _NEWEST.search(text):
        yield Value("any", "")
    elif (found := _VERSION.match(text)) and found[0] == text.split()[0].rstrip(",;"):
        yield Value("exact", plain(found[0]))
    elif found := _REFERENCE.match(text):
        yield Value("reference", found[1])


def plain(version: str) -> str:
    """Return a version without quotes, brackets, escapes of addresses, and the mark of a build for processors."""
    version = version.strip("`'\" ()\\,").replace("%2B", "+").removesuffix("+cpu")
    return version[1:] if re.match(r"v\d", version) else version


class Names:
    """Finds the component that a name of a file means."""

    def __init__(self, components: Mapping[str, Component], others: Iterable[str], called: Mapping[str, str]) -> None:
        self._known = {_spelled(name): name for name in others}
        for component in components.values():
            own = (component.name, component.index_name, component.title, *component.called)
            self._known |= dict.fromkeys(map(_spelled, own), component.name)
        self._known |= {_spelled(name): component for name, component in called.items()}

    def component(self, text: str) -> str | None:
        name = re.sub(r"\[.*?\]", "", _MARKUP.sub("", text))
        return self._known.get(_spelled(name))


def _spelled(name: str) -> str:
    return re.sub(r"[\s_-]+", "-", name.strip().lower())
