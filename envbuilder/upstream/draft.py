"""Drafts one row: reads the files of a release and of what it is installed with, and chooses each version.

First the anchors: the vendor's toolkit, the engine and its plugin, which have to agree. Then everything else.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from envbuilder import versions
from envbuilder.errors import EnvbuilderError
from envbuilder.language import tr
from envbuilder.matrix import Matrix
from envbuilder.matrix.model import Component, Engine, Framework
from envbuilder.matrix.model.reads import Read
from envbuilder.upstream.choose import (
    BY_HAND,
    PAIRING,
    Choosing,
    Chosen,
    Option,
    Preference,
    binding,
    choose,
    known_spelling,
)
from envbuilder.upstream.document import Topic
from envbuilder.upstream.git import MirrorError
from envbuilder.upstream.readers import RowTarget, age, applies, find_file, refuse_missing, statements
from envbuilder.upstream.references import Repositories, Revision
from envbuilder.upstream.shell import shell
from envbuilder.upstream.statement import Names, Statement, Value, plain
from envbuilder.upstream.tree import FoundFile, Tree, find, unknown_release
from envbuilder.upstream.uploads import Uploads, fits

# packages that were uploaded so many days after a release are of its time
_DAYS_OF_ITS_TIME = 10
_TOOLKIT, _PYTHON = "cann", "python"


class UnagreedError(EnvbuilderError):
    """The anchors of a row are of two stacks."""

    exit_code = 3


class FileRead(NamedTuple):
    """A file that was read, by which rule, and the component that it is about."""

    read: Read
    owner: str
    found: FoundFile


class Drafted(NamedTuple):
    """A drafted row of one engine and chip family."""

    target: RowTarget
    tree: Tree
    until: str
    pins: Mapping[str, Chosen]
    stated: Mapping[str, list[Statement]]
    files: tuple[FileRead, ...]
    notes: tuple[str, ...]
    components: Mapping[str, Component]
    repositories: Repositories


class Sources(NamedTuple):
    """Where a draft reads: a mirror of repositories, the folder of copies, the package index."""

    uploads: Uploads
    mirror: str | None
    kept: Path


def draft(matrix: Matrix, target: RowTarget, sources: Sources, by_hand: Mapping[str, str]) -> Drafted:
    """Return the draft of a row."""
    return _Drafting(matrix, target, sources, by_hand).run()


class _Drafting:
    """The state of a draft: what was stated, and what is chosen."""

    def __init__(self, matrix: Matrix, target: RowTarget, sources: Sources, by_hand: Mapping[str, str]) -> None:
        self.matrix, self.target = matrix, target
        self.framework: Framework = matrix.frameworks[target.framework]
        self.engine: Engine = matrix.engines[target.engine]
        self.components: Mapping[str, Component] = matrix.components
        self.repositories = Repositories(matrix.components, sources.mirror, sources.kept)
        self.uploads = sources.uploads
        self.notes: list[str] = []
        self.files: list[FileRead] = []
        self.tree = self._release()
        self.until = _later(self.tree.date)
        self.stated: dict[str, list[Statement]] = {}
        own = Chosen(self.framework.component, target.branch, "stated", self.tree.commit, self.tree.label)
        self.pins: dict[str, Chosen] = {own.component: own}
        self.choosing = self._choosing()
        for name, version in by_hand.items():
            self._add(Statement(name, Value("exact", plain(version)), BY_HAND, "--pin", 0))

    def _release(self) -> Tree:
        """Return the files of the release; of its source archive, if its commit is published nowhere."""
        name, tag = self.framework.component, self.target.branch
        tree: Tree | None = self.repositories.release(name, tag)
        if tree is None and self.components[name].on_index:
            tree = self.uploads.archive(self.components[name].index_name, versions.public(tag))
            if tree:
                self.notes.append(f"no commit of {tag} is published: read from its source archive, and what that lacks"
                                  " from the repository as it was on that day")  # fmt: skip
        if tree is None:
            repository = self.repositories.of(name)
            found = repository.references if repository else frozenset()
            tags = [item.removeprefix("refs/tags/") for item in found if item.startswith("refs/tags/")]
            raise unknown_release(self.framework.title, tag, tags)
        return tree

    def _choosing(self) -> Choosing:
        reads = [read.name for read in (*self.framework.reads, *self.engine.reads)]
        names = {*self.framework.authority, *self.engine.authority}
        prefer: dict[str, Sequence[str]] = {
            name: (*self.engine.authority.get(name, ()), *self.framework.authority.get(name, ())) for name in names
        }
        order = (BY_HAND, *dict.fromkeys(reads), PAIRING)
        return Choosing(self.components, self.repositories, self.uploads, self.tree.date, self.until, order, prefer)

    def run(self) -> Drafted:
        for read in self.framework.reads:
            self._read(read, self.framework.component, self.tree)
        engine, plugin = self.engine.engine, self.engine.plugin
        for name in (_TOOLKIT, _PYTHON, engine, plugin):
            self._choose(name)
        for read in self.engine.reads:
            owner = read.of or engine
            if tree := self.repositories.tree(owner, self.pins[owner].commit):
                self._read(read, owner, tree)
        # the plugin again, if files of the engine name it
        anchors = [_TOOLKIT, _PYTHON, engine]
        anchors += [plugin] if any(item.read in self._of(engine) for item in self.stated.get(plugin, ())) else []
        others = {role for item in self.matrix.engines.values() for role in (item.engine, item.plugin)}
        known = dict.fromkeys((*anchors, *self.stated, *self.components))
        for name in known:
            if name in anchors or name not in others | {_TOOLKIT, _PYTHON, self.framework.component}:
                self._choose(name)
        self._agree()
        pins = {name: item for name, item in self.pins.items() if item.version and self._belongs(item)}
        return Drafted(
            self.target, self.tree, self.until, pins, self.stated, tuple(self.files), tuple(self.notes),
            self.components, self.repositories,
        )  # fmt: skip

    def _belongs(self, pin: Chosen) -> bool:
        """Return whether a row of this framework installs a component; documents name others, too."""
        name = pin.component
        if name in self.components:
            layers = (*self.framework.layers, *self.engine.layers)
            return self.components[name].kind != "git" or any(layer.component == name for layer in layers)
        rows = [item for item in self.matrix.branches if item.framework == self.target.framework]
        parts = [part for item in rows for part in (item, *item.engines.values(), *item.overrides)]
        return pin.status in {"stated", "paired"} or any(name in part.pins for part in parts)

    def _of(self, engine: str) -> set[str]:
        return {read.name for read in self.engine.reads if (read.of or self.engine.engine) == engine}

    def _read(self, read: Read, owner: str, tree: Tree) -> None:
        """Take over what the file of a rule states; a rule without its files is an error."""
        version = self.pins[owner].version if owner in self.pins else self.target.branch
        if not applies(read, self.target, version):
            return
        try:
            place, note = self._place(read, owner, tree)
        except MirrorError as error:
            if not read.optional:
                raise
            self.notes.append(f"{read.name}: not read; {error.message}")
            return
        found = find_file(read, place, self.target)
        if found is None and place is tree and tree.commit is None:
            place, note = self._today(read, owner, self.tree.date)
            found = find_file(read, place, self.target)
        if found is None:
            if read.optional:
                return
            raise refuse_missing(read, place, read.where)
        self.files.append(FileRead(read, owner, found))
        if days := age(found.text, self.tree.date):
            note = f"last updated {days} days before the release"
            self.notes.append(f"{read.name}: {note}")
        keys = {owner: self.pins[owner].version} if read.reader == "releases" else {}
        topic = Topic(self.engine.engine, self._engines, self.target.family)
        for statement in statements(read, found, self._names(read), topic, keys, note):
            if statement.component != read.of:
                self._add(statement)

    def _place(self, read: Read, owner: str, tree: Tree) -> tuple[Tree, str]:
        if read.repository or read.latest:
            # a file of today may be about a release after the release
            return self._today(read, owner, None if read.latest else self.tree.date)
        return tree, ""

    def _today(self, read: Read, owner: str, day: str | None) -> tuple[Tree, str]:
        """Return the files of the main branch: of today, or as they were on a day."""
        repository = self.repositories.at(read.repository) if read.repository else self.repositories.of(owner)
        assert repository is not None  # noqa: S101  a component with a tag has one
        commit = repository.branch_at("HEAD", day) if day else "HEAD"
        tree = repository.tree(commit or "HEAD")
        assert tree is not None  # noqa: S101  every repository has a main branch
        return tree, f"of the main branch of {tree.date}, not of the release"

    @property
    def _engines(self) -> list[str]:
        return [item.engine for item in self.matrix.engines.values()]

    def _names(self, read: Read) -> Names:
        return Names(self.components, self._others, read.called)

    @property
    def _others(self) -> list[str]:
        """Return the packages without a compat table that rows pin."""
        rows = [row for branch in self.matrix.branches for row in (branch, *branch.engines.values(), *branch.overrides)]
        return sorted({name for row in rows for name in row.pins}.difference(self.components))

    def _add(self, statement: Statement) -> None:
        known = self.stated.setdefault(statement.component, [])
        same = (item.value == statement.value and item.read == statement.read for item in known)
        if not any(same):
            known.append(statement)

    def _choose(self, name: str) -> None:
        component = self.components.get(name)
        prefer = self._by_image(component) if component and component.own_image else None
        layer = self.engine.pins.get(name) or self.framework.pins.get(name)
        found = self.stated.get(name, [])
        # a pin of every row of the engine or the framework stays, unless the metadata of a package forbids it
        if layer and fits(layer.version, binding(found)):
            return
        self.pins[name] = choose(self.choosing, name, found, self.pins, prefer)

    def _by_image(self, component: Component) -> Preference:
        """Return what puts first the versions whose own image has the row's toolkit: a tag, or else its branch."""

        def ordered(options: list[Option]) -> tuple[list[Option], list[str]]:
            toolkit = self.pins[_TOOLKIT].version
            images = [
                (item, self._image(component, item.revision))
                for item in (*options, *self._branches(component, options))
            ]
            fitting = [item for item, image in images if image and versions.same(image, toolkit)]
            if not fitting or fitting[0] is images[0][0]:
                return fitting or options, []
            (first, image), found = images[0], fitting[0]
            reason = (
                f"{first.revision.version} is for {image or '?'}, {found.revision.version} for {toolkit} as the row"
            )
            return fitting, [reason]

        return ordered

    def _branches(self, component: Component, options: list[Option]) -> list[Option]:
        """Return the release branches of the stated versions."""
        pattern = component.own_image.branch if component.own_image else None
        found = []
        for statement, revision in options:
            names = dict.fromkeys((statement.value.text.rpartition("/")[2], revision.version))
            for name in names if pattern else ():
                branch = str(pattern).replace("{version}", plain(name))
                other = self.repositories.revision(component.name, branch, self.tree.date)
                if other:
                    note = f"the branch {branch} on {self.tree.date}, whose image is for the same toolkit"
                    found.append(Option(statement._replace(note=note), other))
        return found

    def _image(self, component: Component, revision: Revision) -> str | None:
        """Return the toolkit of the image that a revision of a component builds."""
        tree = self.repositories.tree(component.name, revision.commit)
        found = self._own_image(component, tree) if tree else None
        if found is None:
            return None
        lines = shell(found.text, Names(self.components, (), {}), {})
        stated = next((line.value.text for line in lines if line.component == _TOOLKIT), None)
        return known_spelling(self.components[_TOOLKIT], stated) if stated else None

    def _own_image(self, component: Component, tree: Tree) -> FoundFile | None:
        return find(tree, [component.own_image.file]) if component.own_image else None

    def _agree(self) -> None:
        """Refuse a row whose anchors are of two stacks, unless a person chose the toolkit."""
        toolkit = self.pins[_TOOLKIT]
        if any(item.read == BY_HAND for item in toolkit.statements):
            return
        for role in (self.engine.plugin, self.engine.engine):
            component, pin = self.components[role], self.pins[role]
            image = self._image(component, Revision(pin.version, pin.commit)) if component.own_image else None
            if image and not versions.same(image, toolkit.version):
                raise self._unagreed(toolkit, pin, image)

    def _unagreed(self, toolkit: Chosen, plugin: Chosen, image: str) -> UnagreedError:
        title, component = self.components[_TOOLKIT].title, self.components[plugin.component]
        one = f"{title} {toolkit.version} ({toolkit.place})"
        other = f"{component.title} {plugin.version} ({plugin.place})"
        message = tr(
            "the files of {release} are of two stacks: {one}, and {other}, whose image is for {title} {image}",
            release=self.tree.label, one=one, other=other, title=title, image=image,
        )  # fmt: skip
        pins = [f"--pin {_TOOLKIT}={version}" for version in (toolkit.version, image)]
        return UnagreedError(message, hint=tr("choose one of them: {pins}", pins=tr(" or ").join(pins)))


def _later(day: str) -> str:
    return (datetime.date.fromisoformat(day) + datetime.timedelta(days=_DAYS_OF_ITS_TIME)).isoformat()
