"""Chooses the version of a component from what the files of several projects state about it.

The metadata of packages binds. The pairing of the vendor comes next, then the other statements in the order of their
authority; the first that the metadata allows is taken. A range is no choice: the newest release of its time is a guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from envbuilder import versions
from envbuilder.matrix.model import Component
from envbuilder.upstream.references import Repositories, Revision
from envbuilder.upstream.statement import Statement, Value
from envbuilder.upstream.uploads import Uploads, fits, newest

# stated without a contradiction, paired by the vendor, newest of a range, against what is stated, or nothing
Status: TypeAlias = Literal["stated", "paired", "guessed", "undecided", "missing"]
PAIRING, BY_HAND = "pairing", "pin"
_LAST = 99


class Chosen(NamedTuple):
    """The version that was chosen for a component, its place, and everything that says something else."""

    component: str
    version: str = ""
    status: Status = "missing"
    commit: str | None = None
    place: str = ""
    because: str = ""
    statements: tuple[Statement, ...] = ()
    contradictions: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Return whether a source states the version, and none contradicts it."""
        return self.status in {"stated", "paired"} and not self.contradictions


class Option(NamedTuple):
    """A statement of one version, and what it is in the repository of the component."""

    statement: Statement
    revision: Revision


# puts first what something besides authority prefers, and says what speaks against it
Preference: TypeAlias = Callable[[list[Option]], tuple[list[Option], list[str]]]


class Choosing(NamedTuple):
    """What a choice needs to know besides the statements."""

    components: Mapping[str, Component]
    repositories: Repositories
    uploads: Uploads
    # of the release, and until when packages of the index belong to its time
    day: str
    until: str
    # of the reads, the most binding first
    order: Sequence[str]
    prefer: Mapping[str, Sequence[str]]

    def is_vendor(self, name: str) -> bool:
        component = self.components.get(name)
        return component is not None and component.kind == "vendor"

    def is_git(self, name: str) -> bool:
        component = self.components.get(name)
        return component is not None and component.kind == "git"

    def on_index(self, name: str) -> bool:
        return not (self.is_vendor(name) or self.is_git(name))

    def distribution(self, name: str) -> str:
        component = self.components.get(name)
        return component.index_name if component else name.replace("_", "-")

    def ranked(self, name: str, found: Iterable[Statement]) -> list[Statement]:
        preferred = (BY_HAND, *self.prefer.get(name, ()))
        places = {read: place for place, read in reversed([*enumerate(preferred)])}
        return sorted(found, key=lambda item: (places.get(item.read, _LAST), self.rank(item)))

    def rank(self, statement: Statement) -> int:
        return self.order.index(statement.read) if statement.read in self.order else _LAST

    def revision(self, name: str, value: Value) -> Revision | None:
        """Return what a stated version or reference is; None if the repository does not have it."""
        if self.is_git(name) or value.kind == "reference":
            found = self.repositories.revision(name, value.text, self.day)
            return found and found._replace(version=known_spelling(self.components.get(name), found.version))
        return Revision(known_spelling(self.components.get(name), value.text))


def known_spelling(component: Component | None, version: str) -> str:
    """Return a version as the compat table has it; only two numbers of one that the table has in less detail."""
    release = component.release(version) if component else None
    if release is None and component is not None and component.kind == "vendor":
        release = component.release(".".join(map(str, versions.series(version))))
    return release.version if release else version


def paired(choosing: Choosing, name: str, pins: Mapping[str, Chosen]) -> Statement | None:
    """Return what the compat tables pair with the versions that are chosen already."""
    component = choosing.components.get(name)
    if component is None or not component.paired_by:
        return None
    have = {other: pins[other].version for other in component.paired_by if other in pins and pins[other].version}
    if len(have) < len(component.paired_by):
        return None
    own = [
        item.version
        for item in component.releases
        if item.status == "known" and all(item.is_paired(other, version) for other, version in have.items())
    ]
    found = own or [
        version
        for other, have_version in have.items()
        if (table := choosing.components.get(other)) and (release := table.release(have_version))
        for version in release.paired.get(name, ())
    ]
    if not found:
        return None
    best = max(found, key=versions.key)
    note = "goes with " + ", ".join(" ".join(pair) for pair in have.items())
    return Statement(name, Value("exact", best), PAIRING, component.source, 0, note=note)


def choose(
    choosing: Choosing, name: str, found: Iterable[Statement], pins: Mapping[str, Chosen],
    prefer: Preference | None = None,
) -> Chosen:  # fmt: skip
    """Return the choice for a component; `prefer` reorders the stated versions by something besides authority."""
    ranked = choosing.ranked(name, found)
    pair = paired(choosing, name, pins)
    # a driver is what a document says; everything else is made for its partner
    candidates = [*ranked, *([pair] if pair else [])]
    if pair and not choosing.is_vendor(name) and not any(item.read == BY_HAND for item in ranked):
        candidates = [pair, *ranked]
    options, contradictions = _options(choosing, name, candidates)
    if prefer:
        options, more = prefer(options)
        contradictions += more
    conditions = _conditions(choosing, name, ranked, pins)
    picked = _pick(choosing, name, ranked, options, conditions)
    contradictions += _against(choosing, name, picked, options, ranked)
    return picked._replace(statements=tuple(candidates), contradictions=tuple(dict.fromkeys(contradictions)))


def _options(choosing: Choosing, name: str, candidates: list[Statement]) -> tuple[list[Option], list[str]]:
    """Return the stated versions that exist; those that the index does not have last."""
    options, problems = [], []
    for item in candidates:
        if item.value.kind in {"exact", "reference"}:
            revision = choosing.revision(name, item.value)
            if revision is None:
                problems.append(_sentence(item, "which is not in its repository"))
            else:
                options.append(Option(item, revision))
    if choosing.on_index(name):
        uploaded = choosing.uploads.days(choosing.distribution(name))
        known = {versions.key(version) for version in uploaded}
        options.sort(
            key=lambda item: (
                bool(known)
                and versions.key(item.revision.version) not in known
                and item.statement.read not in {PAIRING, BY_HAND}
            )
        )
    return options, problems


def binding(found: Iterable[Statement]) -> list[str]:
    """Return the conditions of the metadata of packages."""
    return sorted(
        {
            ("==" if item.value.kind == "exact" else "") + item.value.text
            for item in found
            if item.enforced and item.value.text and item.value.kind != "reference"
        }
    )


def _conditions(choosing: Choosing, name: str, ranked: list[Statement], pins: Mapping[str, Chosen]) -> list[str]:
    """Return the conditions of package metadata, and that of the component whose numbers the version begins with."""
    component = choosing.components.get(name)
    partner = pins.get(component.like) if component and component.like else None
    return [*binding(ranked), *([f"=={versions.public(partner.version)}.*"] if partner and partner.version else [])]


def _pick(
    choosing: Choosing, name: str, ranked: list[Statement], options: list[Option], conditions: list[str]
) -> Chosen:  # fmt: skip
    # a person may know better than the metadata of a package
    allowed = (item for item in options if item.statement.read == BY_HAND or fits(item.revision.version, conditions))
    good = next(allowed, None)
    if good:
        return _stated(choosing, name, good, options)
    ranges = [item for item in ranked if item.value.kind == "range"]
    guess = _guess(choosing, name, ranked, ranges, conditions, bool(options))
    if guess:
        return guess
    enforced = [item for item in ranked if item.enforced and item.value.text]
    if options or (enforced and choosing.on_index(name)):
        return _undecided(choosing, name, options, enforced, conditions)
    least = re.search(r">=([\w.]+)", ranges[0].value.text) if ranges else None
    if least:
        version = known_spelling(choosing.components.get(name), least[1])
        because = f"the least of {ranges[0].value.text}"
        return Chosen(name, version, "guessed", place=ranges[0].place, because=because)
    return Chosen(name)


def _stated(choosing: Choosing, name: str, good: Option, options: list[Option]) -> Chosen:
    status: Status = "paired" if good.statement.read == PAIRING else "stated"
    # cited is the source with the most authority that says the same
    same = [item.statement for item in options if versions.same(item.revision.version, good.revision.version)]
    cited = min(same, key=choosing.rank)
    version, commit = good.revision
    note = cited.note
    if cited.value.kind == "reference" and not note and not versions.same(cited.value.text, version):
        note = f"{cited.value.text} on {choosing.day}, the day of the release"
    return Chosen(name, version, status, commit, cited.place, note)


def _guess(
    choosing: Choosing, name: str, ranked: list[Statement], ranges: list[Statement], conditions: list[str], stated: bool
) -> Chosen | None:  # fmt: skip
    """Return the newest release of its time in all ranges, or in those that bind; None if that is no guess."""
    if choosing.is_vendor(name) or not ranked or (stated and not conditions):
        return None
    soft, distribution = [item.value.text for item in ranges], choosing.distribution(name)

    def newest_of(limits: list[str]) -> str:
        return newest(choosing.uploads, distribution, limits, choosing.until)

    limits, found = next(
        ((limits, found) for limits in ([*conditions, *soft], conditions) if (found := newest_of(limits))), ([], "")
    )
    if not found:
        return None
    bound = next((item for item in (*ranges, *ranked) if "<" in item.value.text), (ranges or ranked)[0])
    revision = choosing.revision(name, Value("exact", found))
    within = " and ".join(sorted({*limits}))
    because = f"the newest release until {choosing.until}" + (f" of {within}" if within else "")
    return Chosen(name, found, "guessed", revision.commit if revision else None, bound.place, because)


def _undecided(
    choosing: Choosing, name: str, options: list[Option], enforced: list[Statement], conditions: list[str]
) -> Chosen:  # fmt: skip
    because = f"no release meets all of: {', '.join(conditions)}"
    if options:
        first = options[0]
        return Chosen(name, first.revision.version, "undecided", first.revision.commit, first.statement.place, because)
    first_bound = enforced[0]
    limit = ("==" if first_bound.value.kind == "exact" else "") + first_bound.value.text
    version = newest(choosing.uploads, choosing.distribution(name), [limit], choosing.until)
    return Chosen(name, version, "undecided" if version else "missing", place=first_bound.place, because=because)


def _against(
    choosing: Choosing, name: str, picked: Chosen, options: list[Option], ranked: list[Statement]
) -> Iterator[str]:  # fmt: skip
    """Yield everything that says another version than the chosen one."""
    if not picked.version:
        return
    for statement, revision in options:
        if not versions.same(revision.version, picked.version):
            yield _sentence(statement, statement.note)
    for item in ranked:
        if item.value.kind == "range" and not fits(picked.version, [item.value.text]):
            yield f"{item.read} asks for {item.value.text} ({item.place})"
    uploaded = choosing.uploads.days(choosing.distribution(name)) if choosing.on_index(name) else {}
    if uploaded and not any(versions.same(version, picked.version) for version in uploaded):
        yield "the package index does not have it"


def _sentence(item: Statement, note: str) -> str:
    words = f"{item.read} says {item.value.text} ({item.place})"
    return f"{words}: {note}" if note else words
