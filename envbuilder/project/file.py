"""Reads the table `[environment]` of a project's `envbuilder.toml`: which row it stands on, and what it adds."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeVar

from packaging.version import InvalidVersion, Version

from envbuilder.environment import Filters
from envbuilder.environment.additions import OwnSource
from envbuilder.errors import MatrixError, Problem, Where
from envbuilder.files import parse_toml, read_regular
from envbuilder.language import did_you_mean, tr
from envbuilder.matrix.record import NOTHING, Record
from envbuilder.requirements import Requirement, normalize, parse

TABLE = "environment"
_LARGEST = 10**6
# the keys that choose the row, by the names of the command line's options
DIMENSIONS = {"framework": "framework", "branch": "branch", "engine": "engine", "hw": "hardware", "os": "os"}
_NAME = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")
_SYSTEM_PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ADDRESS = re.compile(r"[a-z+]+://|[^/@\s]+@[^/:\s]+:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# folders of the image that the row's own files are in
_TAKEN = ("/opt/envbuilder", "/proc", "/sys", "/dev", "/run", "/usr/lib/python3", "/usr/local/lib/python3")
Value = TypeVar("Value")


class Wish(NamedTuple):
    """A requirement of a project, and the place that names it."""

    requirement: Requirement
    where: Where

    @property
    def text(self) -> str:
        return self.requirement.text


class ProjectFile(Record):
    """The environment that a project describes."""

    file: Path
    name: str
    filters: Filters
    packages: tuple[Wish, ...]
    # the file with further requirements, if the project has one
    requirements: Path | None
    system_packages: tuple[str, ...]
    pins: Mapping[str, str]
    sources: Mapping[str, OwnSource]
    variables: Mapping[str, str]
    files: Mapping[str, str]
    # the SHA-256 of all that a lock depends on
    digest: str
    places: Mapping[str, Where]

    @property
    def folder(self) -> Path:
        return self.file.parent

    def where(self, key: str) -> Where:
        return self.places.get(key, Where(str(self.file)))

    def pinned(self) -> Iterator[Wish]:
        """Yield the pins as requirements."""
        for name, version in self.pins.items():
            yield Wish(
                parse(f"{name.replace('_', '-')}=={version}"), self.where(name if name in self.places else "pins")
            )


def read_project(file: Path, texts: Mapping[Path, str] = NOTHING) -> ProjectFile | None:
    """Return the environment of a project's file, or None if it describes none. Nothing of the project is run.

    `texts` has files that are not written yet.
    """
    try:
        text = text_of(file, texts)
        document = parse_toml(text)
    except (OSError, ValueError) as error:
        raise MatrixError.of(tr("it cannot be read: {reason}", reason=error), Where(str(file))) from error
    if TABLE not in document:
        return None
    return _TableReader(file, text, texts).project(document[TABLE])


def text_of(file: Path, texts: Mapping[Path, str] = NOTHING) -> str:
    return texts[file] if file in texts else read_regular(file, _LARGEST).decode()


class _TableReader:
    """Decodes the table, and gathers all problems before it raises them."""

    def __init__(self, file: Path, text: str, texts: Mapping[Path, str]) -> None:
        self.file, self.texts = file, texts
        self.places = dict(_places(str(file), text))
        self.problems: list[Problem] = []

    def project(self, table: Any) -> ProjectFile:
        if not isinstance(table, dict):
            raise MatrixError.of(tr("'{key}' takes {wanted}", key=TABLE, wanted=tr("a table")), self.where(TABLE))
        known = {
            "name", *DIMENSIONS, "packages", "requirements", "system-packages", "pins", "sources", "variables", "files",
        }  # fmt: skip
        for key in sorted(table.keys() - known):
            guess = did_you_mean(key, known)
            known_keys = tr("known: {names}", names=", ".join(sorted(known)))
            self.problem(
                key, tr("there is no key '{key}' in [environment]; {guess}", key=key, guess=guess + known_keys)
            )
        filters = {of: self.text(table, key) for key, of in DIMENSIONS.items()}
        requirements = self.text(table, "requirements")
        if requirements and "packages" in table:
            self.problem("requirements", tr("give 'packages' or 'requirements', and not both"))
        wishes = [*self.listed(table, "packages", self.wish), *(self.required(requirements) if requirements else ())]
        found = ProjectFile(
            file=self.file,
            name=self.text(table, "name", _project_name) or _slug(self.file.absolute().parent.name),
            filters=Filters(**filters),
            packages=tuple(wishes),
            requirements=self.file.parent / requirements if requirements else None,
            system_packages=tuple(self.listed(table, "system-packages", self.system_package)),
            pins=self.mapped(table, "pins", _pin),
            sources={
                name: source
                for name, source in self.mapped(table, "sources", self.source).items()
                if source is not None
            },
            variables=self.mapped(table, "variables", _variable),
            files=self.mapped(table, "files", self.placed),
            digest=_digest(table, wishes),
            places=self.places,
        )
        if self.problems:
            raise MatrixError(self.problems)
        return found

    # --- values ----------------------------------------------------------------------------------------------

    def where(self, key: str) -> Where:
        return self.places.get(key) or self.places.get(TABLE) or Where(str(self.file))

    def problem(self, key: str, message: str, where: Where | None = None) -> None:
        self.problems.append(Problem(where or self.where(key), message))

    def wrong(self, key: str, wanted: str) -> None:
        self.problem(key, tr("'{key}' takes {wanted}", key=key, wanted=tr(wanted)))

    def text(self, table: Mapping[str, Any], key: str, check: Callable[[str], str] = lambda text: text) -> str | None:
        if key not in table:
            return None
        value = table[key]
        if not isinstance(value, str) or not value or _CONTROL.search(value):
            self.wrong(key, "one line of text")
            return None
        try:
            return check(value)
        except ValueError as error:
            self.problem(key, str(error))
            return None

    def listed(
        self, table: Mapping[str, Any], key: str, convert: Callable[[str, str], Iterator[Value]]
    ) -> Iterator[Value]:
        value = table.get(key, [])
        if not isinstance(value, list) or any(not isinstance(item, str) or _CONTROL.search(item) for item in value):
            self.wrong(key, "a list of texts")
            return
        for item in value:
            yield from convert(key, item)

    def mapped(
        self, table: Mapping[str, Any], key: str, convert: Callable[[str, str], tuple[str, Value]]
    ) -> dict[str, Value]:
        value = table.get(key, {})
        if not isinstance(value, dict) or any(
            not isinstance(item, str) or _CONTROL.search(name + item) for name, item in value.items()
        ):
            self.wrong(key, "a table of texts")
            return {}
        found = {}
        for name, item in value.items():
            try:
                target, converted = convert(name, item)
            except ValueError as error:
                self.problem(name if name in self.places else key, str(error))
            else:
                found[target] = converted
        return found

    def wish(self, key: str, text: str, where: Where | None = None) -> Iterator[Wish]:
        place = where or self.places.get(f"{key}: {text}") or self.where(key)
        try:
            yield Wish(parse(text), place)
        except ValueError as error:
            self.problem(key, str(error), place)

    def required(self, name: str) -> Iterator[Wish]:
        """Yield the requirements of a file in pip's format."""
        path = self.file.parent / name
        try:
            lines = text_of(path, self.texts).splitlines()
        except (OSError, ValueError) as error:
            self.problem("requirements", tr("{file} cannot be read: {reason}", file=name, reason=error))
            return
        for number, line in enumerate(lines, 1):
            text, where = (
                line.partition("#")[0].strip() if not line.lstrip().startswith("#") else "",
                Where(str(path), number),
            )
            if text.startswith("-"):
                self.problem("requirements", tr("'{line}' is an option of pip, and not a package", line=text), where)
            elif text:
                yield from self.wish("requirements", text, where)

    def system_package(self, key: str, text: str) -> Iterator[str]:
        if _SYSTEM_PACKAGE.fullmatch(text):
            yield text
        else:
            self.problem(key, tr("'{name}' is not the name of a package of the system", name=text))

    def source(self, name: str, value: str) -> tuple[str, OwnSource | None]:
        component = normalize(name)
        if not _ADDRESS.match(value):
            folder = self.file.parent / value
            if not folder.is_dir():
                raise ValueError(tr("there is no folder '{path}'", path=value))
            if not any((folder / kind).is_file() for kind in ("pyproject.toml", "setup.py")):
                raise ValueError(tr("'{path}' has no Python project: no pyproject.toml and no setup.py", path=value))
            return component, OwnSource(component, folder)
        repository, _, commit = value.rpartition("@")
        if not _COMMIT.fullmatch(commit) or not _ADDRESS.match(repository):
            raise ValueError(
                tr("'{value}' names no commit: give https://HOST/NAME.git@COMMIT, with all 40 digits", value=value)
            )
        return component, OwnSource(component, None, repository, commit)

    def placed(self, source: str, target: str) -> tuple[str, str]:
        path = (self.file.parent / source).resolve()
        if not path.is_relative_to(self.file.parent.resolve()):
            raise ValueError(tr("'{path}' is outside of the project", path=source))
        if not path.exists():
            raise ValueError(tr("there is no file '{path}'", path=source))
        place = PurePosixPath(target)
        if not place.is_absolute() or ".." in place.parts or place == PurePosixPath("/"):
            raise ValueError(tr("'{path}' is not an absolute path in the image", path=target))
        if any(place.is_relative_to(taken) or PurePosixPath(taken).is_relative_to(place) for taken in _TAKEN):
            raise ValueError(tr("'{path}' has files of the row", path=target))
        return source, str(place)


def _pin(name: str, version: str) -> tuple[str, str]:
    try:
        Version(version)
    except InvalidVersion:
        message = tr("'{name}' takes one version, such as 1.2.3, and not '{version}'", name=name, version=version)
        raise ValueError(message) from None
    return normalize(name), version


def _variable(name: str, value: str) -> tuple[str, str]:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(tr("'{name}' is not the name of a variable", name=name))
    if name == "BASH_ENV" or name.startswith("LD_"):
        raise ValueError(tr("'{name}' decides which code runs, and belongs to the row", name=name))
    return name, value


def _project_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(
            tr("'{name}' cannot be a part of the name of an image: use a-z, 0-9 and - between them", name=text)
        )
    return text


def _slug(name: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", name.lower())) or "project"


def _digest(table: Mapping[str, Any], wishes: list[Wish]) -> str:
    """Return the digest of what a lock depends on; variables and files do not change it."""
    keys = (*DIMENSIONS, "pins", "sources")
    content = {"packages": [wish.text for wish in wishes], **{key: table.get(key) for key in keys if key in table}}
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _places(file: str, text: str) -> Iterator[tuple[str, Where]]:
    """Yield the place of each key of the table, and of each text in a list of it."""
    inside, key = False, ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\s*([A-Za-z0-9_.\"' -]+?)\s*\]\s*(?:#.*)?$", line):
            names = [name.strip(" \"'") for name in header[1].split(".")]
            inside = names[0] == TABLE
            if inside:
                yield names[-1], Where(file, number)
            continue
        if not inside:
            continue
        if found := re.match(r"(\s*)[\"']?([A-Za-z0-9_./:-]+)[\"']?\s*=", line):
            key = found[2]
            yield key, Where(file, number, len(found[1]) + 1)
        for item in re.finditer(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'", line):
            yield f"{key}: {item[1] or item[2] or ''}", Where(file, number, item.start() + 1)
