"""Writes a drafted row as YAML: each pin with its source, and above it, as comments, everything that contradicts it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml

from envbuilder import versions
from envbuilder.matrix import Matrix
from envbuilder.matrix.model import Append, Branch, Setting, Settings
from envbuilder.upstream.choose import Chosen
from envbuilder.upstream.draft import Drafted
from envbuilder.upstream.entries import tagged
from envbuilder.upstream.statement import Statement

_WIDTH = 140
_GUIDE = (
    "Drafted by `envbuilder matrix draft` from the files of {release}. A comment above a pin is what another file says."
    " Compare each pin with its source, decide what is marked 'draft', and remove these marks and 'status'."
)


def row_text(matrix: Matrix, drafts: Sequence[Drafted], hardware: Mapping[str, Sequence[str]]) -> str:
    """Return the text of a row; each draft is that of one engine."""
    return "\n".join(_Writer(matrix, drafts, hardware).lines()) + "\n"


class _Writer:
    """Writes the drafts of one release, and names the sources that they share."""

    def __init__(self, matrix: Matrix, drafts: Sequence[Drafted], hardware: Mapping[str, Sequence[str]]) -> None:
        self.matrix, self.drafts, self.hardware = matrix, drafts, hardware
        self.first = drafts[0]
        self.component = matrix.frameworks[self.first.target.framework].component
        self.sources: dict[str, str] = {}

    def lines(self) -> Iterator[str]:
        target = self.first.target
        engines = [line for drafted in self.drafts for line in self._engine(drafted)]
        overrides = [line for drafted in self.drafts for line in self._overrides(drafted)]
        own = _flow({"version": target.branch, "source": self._source("release", self.first.tree.label)})
        yield from _comment(_GUIDE.format(release=self.first.tree.label))
        for note in dict.fromkeys(note for drafted in self.drafts for note in drafted.notes):
            yield from _comment(note)
        yield f"title: {self.matrix.frameworks[target.framework].title} {target.branch}"
        yield f"date: {self.first.tree.date}"
        yield f"exclude_newer: {self.first.until}"
        yield "status: draft"
        yield "sources:"
        yield from (f"  {name}: {_scalar(source)}" for name, source in self.sources.items())
        yield from ("pins:", f"  {self.component}: {own}", "engines:", *engines)
        if overrides:
            yield from ("overrides:", *overrides)

    def _engine(self, drafted: Drafted) -> Iterator[str]:
        model = self._model(drafted)
        row = model.engines[drafted.target.engine] if model else None
        yield f"  {drafted.target.engine}:"
        yield f"    hardware: [{', '.join(self.hardware[drafted.target.engine])}]"
        yield f"    source: {self._source('release', drafted.tree.label)}"
        if model and row:
            yield from self._taken_over(model, row)
        yield "    pins:"
        for name, pin in drafted.pins.items():
            if name != self.component and name not in self._only_with_npus(drafted):
                yield from self._pin(drafted, pin, "      ")

    def _model(self, drafted: Drafted) -> Branch | None:
        """Return the row that settings are taken from: the newest with this engine, of this framework if possible."""
        engine, framework = drafted.target.engine, drafted.target.framework
        rows = [item for item in self.matrix.branches if engine in item.engines and item.name != drafted.target.branch]
        own = [item for item in rows if item.framework == framework]
        return max(own or rows, key=lambda item: (item.date, versions.key(item.name)), default=None)

    def _only_with_npus(self, drafted: Drafted) -> set[str]:
        """Return the components that the row before pins for hardware with NPUs alone."""
        model = self._model(drafted)
        overrides = model.overrides if model else ()
        return {name for part in overrides if part.when.family for name in part.pins}

    def _taken_over(self, model: Branch, row: Settings) -> Iterator[str]:
        """Yield the settings that no file states, as the row before has them."""
        settings = [f"    {line}" for line in _lists(row)]
        if row.indexes:
            settings.append(f"    indexes: {_flow(dict(row.indexes))}")
        if row.variables:
            settings.append("    variables:")
            settings += [f"      {name}: {_flow(_setting(model, item))}" for name, item in row.variables.items()]
        if settings:
            yield f"    # as {model.title} has it"
            yield from settings

    def _overrides(self, drafted: Drafted) -> Iterator[str]:
        model = self._model(drafted)
        for part in model.overrides if model else ():
            when = part.when
            settings = _lists(part)
            if settings and (not when.engine or drafted.target.engine in when.engine):
                yield f"  # as {model.title if model else ''} has it"
                yield f"  - when: {_flow({'engine': [drafted.target.engine], **_dimensions(when)})}"
                yield from (f"    {line}" for line in settings)
        names = [name for name in drafted.pins if name in self._only_with_npus(drafted)]
        if names:
            families = [self.matrix.hardware[name].family for name in self.hardware[drafted.target.engine]]
            yield f"  - when: {_flow({'engine': [drafted.target.engine], 'family': families})}"
            yield "    pins:"
            for name in names:
                yield from self._pin(drafted, drafted.pins[name], "      ")

    def _pin(self, drafted: Drafted, pin: Chosen, indent: str) -> Iterator[str]:
        for text in pin.contradictions:
            yield from _comment(text, indent)
        component = self.matrix.components.get(pin.component)
        version = tagged(component, pin.version) if component and component.kind == "git" else pin.version
        source, _, line = pin.place.partition("#L")
        documented = _documented(drafted, pin)
        values = {"version": version, "source": self._source(_read_of(pin), source)}
        if documented:
            values["documented"] = documented
        if pin.because or documented:
            values["because"] = pin.because or f"as {_read_of(pin)} states"
        if pin.status in {"guessed", "undecided"}:
            values["draft"] = pin.status
        yield f"{indent}{pin.component}: {_flow(values)}" + (f"  # line {line}" if line else "")

    def _source(self, name: str, source: str) -> str:
        """Return the name of a source in this row; the same name of another engine gets a number."""
        for number in range(1, len(self.sources) + 2):
            key = name if number == 1 else f"{name}_{number}"
            if self.sources.setdefault(key, source) == source:
                return key
        raise AssertionError(name)


def _read_of(pin: Chosen) -> str:
    """Return the name of the read that a pin is cited from."""
    return next((item.read for item in pin.statements if item.place == pin.place), "release")


def _documented(drafted: Drafted, pin: Chosen) -> str | None:
    """Return what the framework's own files say first, if that is not the chosen version."""
    own = [item for item in pin.statements if item.source.startswith(f"{drafted.tree.label}:")]
    first = next(iter(own), None)
    if first is None or _states(first, pin.version):
        return None
    return first.value.text or "unpinned"


def _states(item: Statement, version: str) -> bool:
    return item.value.kind == "exact" and versions.same(item.value.text, version)


def _setting(model: Branch, item: Setting) -> dict[str, str]:
    because = {"because": item.because} if item.because else {}
    return {"value": item.value, "source": model.sources.get(item.source, item.source), **because}


def _lists(part: Settings) -> list[str]:
    """Return the lists of packages that a part of a row sets."""
    named = (("remove", part.remove), ("force", part.force))
    return [f"{key}: {_items(value)}" for key, value in named if _is_set(value)]


def _is_set(items: tuple[str, ...] | Append) -> bool:
    return not isinstance(items, Append) or bool(items.append)


def _items(items: tuple[str, ...] | Append) -> str:
    return _flow({"append": list(items.append)}) if isinstance(items, Append) else _flow(list(items))


def _dimensions(when: Any) -> dict[str, list[str]]:
    return {name: list(value) for name in ("hardware", "family", "arch") if (value := getattr(when, name))}


def _flow(value: Any) -> str:
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6).strip()


def _scalar(text: str) -> str:
    return _flow([text])[1:-1]


def _comment(text: str, indent: str = "") -> Iterable[str]:
    start = f"{indent}# "
    return textwrap.wrap(
        text, _WIDTH, initial_indent=start, subsequent_indent=start, break_long_words=False, break_on_hyphens=False
    )
