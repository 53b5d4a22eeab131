"""Reads the Python packages of pinned components from their source archives, for the rule on imports."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping

from envbuilder.check import SourceTree
from envbuilder.environment import Environment
from envbuilder.errors import NetworkError
from envbuilder.inputs.source_archives import SourceOptions, obtain_published
from envbuilder.matrix.model import Component, Release
from envbuilder.plan import SourceArchive


class SourceTrees:
    """The source trees of many environments; each is read once."""

    def __init__(self, options: SourceOptions, talk: Callable[[str], None]) -> None:
        self._options = options
        self._talk = talk
        self._trees: dict[tuple[str, str], SourceTree] = {}

    def read(self, environments: Iterable[Environment]) -> list[str]:
        """Read the trees of all environments, and return what cannot be reached and why."""
        wanted = {_key(*item): item for environment in environments for item in _components(environment)}
        lacking = []
        for key, (component, release) in wanted.items():
            try:
                archive = obtain_published(component, release, self._options, self._talk)
            except NetworkError as error:
                lacking.append(f"{component.title} {release.version}: {error.message}")
            else:
                self._trees[key] = SourceTree(dict(_python_files(archive, component.packages)), component.packages)
        return lacking

    def of(self, environment: Environment) -> Mapping[str, SourceTree]:
        keys = (_key(*item) for item in _components(environment))
        return {key[0]: self._trees[key] for key in keys if key in self._trees}


def _key(component: Component, release: Release) -> tuple[str, str]:
    return component.name, release.version


def _components(environment: Environment) -> Iterator[tuple[Component, Release]]:
    for name in environment.pins:
        component, release = environment.component(name), environment.release(name)
        if component is not None and component.packages and release is not None and release.commit is not None:
            yield component, release


def _python_files(source: SourceArchive, folders: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    into = "" if source.into == "." else f"{source.into}/"
    with tarfile.open(source.archive) as archive:
        for member in archive:
            path = into + "/".join(member.name.removeprefix("./").split("/")[source.strip :])
            if path.endswith(".py") and path.startswith(folders) and (file := archive.extractfile(member)):
                yield path, file.read()
