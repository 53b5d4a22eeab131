"""The lock of a project: `envbuilder.lock` beside its file, with every package that it adds to its row, and hashes.

One file is for all environments of the project: the hardware and the CPU, on each architecture. A package that all of
them have in one version stands in it once.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envbuilder.environment.locks import LockedPackage
from envbuilder.errors import MatrixError, Where
from envbuilder.files import digest_of, parse_toml, read_regular
from envbuilder.language import tr

NAME = "envbuilder.lock"
_FORM = 2
_LARGEST = 20 * 10**6
_HEADER = "# Written by `envbuilder lock` from envbuilder.toml. Change that file instead, and lock again.\n"
_DIGEST = re.compile(r'^digest = "([^"]*)"\n', re.MULTILINE)
_TEXT = re.compile(r"[\w.+!~\[\], /:@-]+")


@dataclass(frozen=True)
class LockedEnvironment:
    """What a project adds to one environment of the matrices."""

    # the digest of the row's lock, on which it stands
    row: str
    packages: tuple[LockedPackage, ...]


@dataclass(frozen=True)
class ProjectLock:
    # the digest of what the project's file asks for
    of: str
    environments: Mapping[str, LockedEnvironment]
    # packages of the row that may have another version, beside those that the file pins
    may_change: tuple[str, ...] = ()
    # the digests of the files in which each own source tree states its requirements
    stated: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        body = "".join(_lines(self))
        return f'{_HEADER}form = {_FORM}\ndigest = "{digest_of(body.encode())}"\n{body}'

    @property
    def digest(self) -> str:
        return digest_of(self.text.encode())


def _lines(lock: ProjectLock) -> Iterator[str]:
    yield f"of = {json.dumps(lock.of)}\n"
    yield f"may-change = {json.dumps(list(lock.may_change))}\n"
    yield "\n# each environment, with the digest of the row's lock\n[environments]\n"
    for name, item in sorted(lock.environments.items()):
        yield f"{json.dumps(name)} = {json.dumps(item.row)}\n"
    for name, files in sorted(lock.stated.items()):
        yield f"\n# where this source states what it requires\n[stated.{json.dumps(name)}]\n"
        yield from (f"{json.dumps(path)} = {json.dumps(digest)}\n" for path, digest in sorted(files.items()))
    found: dict[tuple[str, str], dict[str, tuple[str, ...]]] = {}
    for name, item in sorted(lock.environments.items()):
        for package in item.packages:
            found.setdefault((package.name, package.version), {})[name] = package.hashes
    for (name, version), hashes in sorted(found.items()):
        yield f"\n[[package]]\nname = {json.dumps(name)}\nversion = {json.dumps(version)}\n"
        if len(hashes) < len(lock.environments):
            yield f"only = {json.dumps(sorted(hashes), indent=2)}\n"
        every = sorted({item for group in hashes.values() for item in group})
        yield "hashes = [\n" + "".join(f'  "sha256:{item}",\n' for item in every) + "]\n"


def read_project_lock(file: Path) -> ProjectLock | None:
    """Return the lock in a file, or None if there is no file; one that was changed by hand is an error."""
    if not file.is_file():
        return None
    where = Where(str(file))
    try:
        text = read_regular(file, _LARGEST).decode()
        document = parse_toml(text)
        found = _decoded(document)
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise _refused(tr("it cannot be read: {reason}", reason=error), where) from error
    stated, body = _DIGEST.search(text), _DIGEST.split(text)[-1]
    if stated is None or stated[1] != digest_of(body.encode()) or found.text != text:
        raise _refused(tr("it was changed by hand, or damaged"), where)
    return found


def _decoded(document: Mapping[str, Any]) -> ProjectLock:
    if document["form"] != _FORM:
        raise ValueError(
            tr("its form is {form}, and this envbuilder knows {known}", form=document["form"], known=_FORM)
        )
    rows = {_plain(name): _plain(row) for name, row in document["environments"].items()}
    packages: dict[str, list[LockedPackage]] = {name: [] for name in rows}
    for item in document.get("package", []):
        hashes = tuple(_plain(text).removeprefix("sha256:") for text in item["hashes"])
        for name in item.get("only", rows):
            packages[name].append(LockedPackage(_plain(item["name"]), _plain(item["version"]), hashes))
    environments = {name: LockedEnvironment(row, tuple(packages[name])) for name, row in rows.items()}
    stated = {
        _plain(name): {_plain(path): _plain(digest) for path, digest in files.items()}
        for name, files in document.get("stated", {}).items()
    }
    return ProjectLock(_plain(document["of"]), environments, tuple(map(_plain, document["may-change"])), stated)


def _plain(text: Any) -> str:
    if not isinstance(text, str) or not _TEXT.fullmatch(text):
        raise ValueError(tr("'{text}' is not a text of a lock", text=str(text)[:40]))
    return text


def _refused(message: str, where: Where) -> MatrixError:
    return MatrixError.of(message, where, tr("run: envbuilder lock"))
