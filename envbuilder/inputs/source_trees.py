"""Reads source archives: the Python packages for the rule on imports, and all files for the check of an image."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from envbuilder.check import SourceTree
from envbuilder.environment import Environment
from envbuilder.errors import NetworkError
from envbuilder.inputs.source_archives import SourceOptions, obtain_published
from envbuilder.matrix.model import Component, Release
from envbuilder.plan import SourceArchive, Step


class SourceTrees:
    """The source trees of many environments; each is read once."""

    def __init__(self, options: SourceOptions, say: Callable[[str], None]) -> None:
        self._options = options
        self._say = say
        self._trees: dict[tuple[str, str], SourceTree] = {}

    def read(self, environments: Iterable[Environment]) -> list[str]:
        """Read the trees of all environments, and return which sources cannot be reached and why."""
        wanted = {_key(*item): item for environment in environments for item in _components(environment)}
        missing = []
        for key, (component, release) in wanted.items():
            try:
                archive = obtain_published(component, release, self._options, self._say)
            except NetworkError as error:
                missing.append(f"{component.title} {release.version}: {error.message}")
            else:
                self._trees[key] = source_tree(archive, component.packages)
        return missing

    def of(self, environment: Environment) -> Mapping[str, SourceTree]:
        keys = (_key(*item) for item in _components(environment))
        return {key[0]: self._trees[key] for key in keys if key in self._trees}


def _key(component: Component, release: Release) -> tuple[str, str]:
    return component.name, release.version


def _components(environment: Environment) -> Iterator[tuple[Component, Release]]:
    for name in environment.pins:
        component, release = environment.component(name), environment.release(name)
        if component is not None and component.packages and release is not None and release.fixed:
            yield component, release


def source_tree(archive: SourceArchive, packages: tuple[str, ...]) -> SourceTree:
    """Return the Python packages of an archive."""
    return SourceTree(dict(_python_files(archive, packages)), packages)


def _python_files(source: SourceArchive, folders: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    return _files(source, lambda path: path.endswith(".py") and path.startswith(folders))


def _files(source: SourceArchive, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    into = "" if source.into == "." else f"{source.into}/"
    with tarfile.open(source.archive) as archive:
        for member in archive:
            path = into + "/".join(member.name.removeprefix("./").split("/")[source.strip :])
            if member.isfile() and wanted(path) and (file := archive.extractfile(member)):
                yield path, file.read()


def tree_hashes(source: SourceArchive, steps: Sequence[Step]) -> dict[str, str]:
    """Return the SHA-256 of every file of a source tree after the steps that replace text in it."""
    # an installation writes the metadata again
    files = dict(_files(source, lambda path: ".egg-info/" not in path))
    for step in steps:
        if step.kind in {"replace-text", "replace-text-if-present"}:
            path, text, by = (str(step.values[name]) for name in ("file", "text", "by"))
            if path not in files:
                continue
            # sed replaces the first in each line
            lines = files[path].splitlines(keepends=True)
            files[path] = b"".join(line.replace(text.encode(), by.encode(), 1) for line in lines)
        elif step.kind == "replace-file":
            files[str(step.values["file"])] = files[str(step.values["by"])]
    return {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
