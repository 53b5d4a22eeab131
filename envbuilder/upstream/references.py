"""Finds the commits of components: by tags, branches at the day of a release, and commits; and the version of each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from envbuilder import versions
from envbuilder.matrix.model import Component
from envbuilder.upstream.statement import plain
from envbuilder.upstream.tree import GitTree, Repository


class Revision(NamedTuple):
    """A version of a component, and its commit if it is in a repository."""

    version: str
    commit: str | None = None


class Repositories:
    """The repositories of the components, each opened when it is first needed."""

    def __init__(self, components: Mapping[str, Component], mirror: str | None, kept: Path) -> None:
        self._components, self._mirror, self._kept = components, mirror, kept
        self._opened: dict[str, Repository] = {}

    def of(self, component: str) -> Repository | None:
        known = self._components.get(component)
        return self.at(known.repository) if known and known.repository else None

    def at(self, address: str) -> Repository:
        if address not in self._opened:
            self._opened[address] = Repository(address, self._mirror, self._kept)
        return self._opened[address]

    def tree(self, component: str, commit: str | None) -> GitTree | None:
        repository = self.of(component)
        return repository.tree(commit) if repository and commit else None

    def release(self, component: str, version: str) -> GitTree | None:
        """Return the files of the release that a version names; None if no tag has that name."""
        repository = self.of(component)
        name = repository and self._full_name(component, repository, version)
        return repository.tree(name) if repository and name else None

    def _full_name(self, component: str, repository: Repository, reference: str) -> str | None:
        prefix = self._components[component].tag_prefix or "v"
        bare = reference.removeprefix("v")
        names = (f"tags/{reference}", f"heads/{reference}", f"tags/{prefix}{bare}", f"tags/{bare}")
        return next((f"refs/{name}" for name in names if f"refs/{name}" in repository.references), None)

    def revision(self, component: str, reference: str, day: str) -> Revision | None:
        """Return the version and commit of a tag, a commit, or a branch as it was on a day; None if there is none."""
        repository = self.of(component)
        if repository is None:
            return None
        name = self._full_name(component, repository, reference)
        if name and name.startswith("refs/heads/"):
            found = repository.branch_at(name, day)
        elif name:
            found = repository.commit(name)
        else:
            found = repository.commit(reference) if re.fullmatch(r"[0-9a-f]{7,40}", reference) else None
        version = self._version(component, repository, found, reference) if found else None
        return Revision(version, found) if version else None

    def _version(self, component: str, repository: Repository, commit: str, reference: str) -> str | None:
        stated = self._components[component].stated_version
        tree = repository.tree(commit)
        if stated and tree:
            groups = re.findall(stated.pattern, tree.read(stated.file) or "")
            version = ".".join("".join(group) for group in groups)
            return f"{version}.{tree.date.replace('-', '')}" if version and stated.dated else version or None
        prefix = self._components[component].tag_prefix or ""
        if tags := repository.tags_of(commit):
            tag = reference if reference in tags else max(tags, key=versions.key)
            return plain(tag.removeprefix(prefix))
        return _counted(repository, commit)


def _counted(repository: Repository, commit: str) -> str | None:
    """Return the version as setuptools-scm counts it: the next one of the tag before, with the number of commits."""
    described = repository.ask("describe", "--tags", "--long", commit)
    if described is None:
        return None
    base, count, _ = described.rsplit("-", 2)
    release = re.match(r"\d+(\.\d+)*", plain(base))
    if release is None:
        return None
    *most, least = release[0].split(".")
    return ".".join([*most, str(int(least) + 1)]) + f".dev{count}"
