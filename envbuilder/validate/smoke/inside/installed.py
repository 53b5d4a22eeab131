"""Reads the Python packages of an environment, and compares their files with what they list in RECORD."""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

_CHUNK = 1 << 20
# of an editable installation, of Python, of git
MADE = re.compile(r"\.egg-info/|(^|/)__pycache__/|^\.git/")


class Listed(NamedTuple):
    """A file that a package lists: its name in RECORD, its path, and its SHA-256, if the package lists one."""

    name: str
    path: str
    digest: bytes | None


def digest(path: str, algorithm: str = "sha256") -> bytes | None:
    """Return the digest of a file, or None if it cannot be read."""
    found = hashlib.new(algorithm, usedforsecurity=False)
    try:
        with Path(path).open("rb") as file:
            while chunk := file.read(_CHUNK):
                found.update(chunk)
    except OSError:
        return None
    return found.digest()


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions(folders: list[str] | None = None) -> dict[str, metadata.Distribution]:
    """Return the packages by name, by default those that Python finds; the first of a name is imported."""
    found: dict[str, metadata.Distribution] = {}
    for item in metadata.distributions() if folders is None else metadata.distributions(path=folders):
        # a folder without a name, such as one that was removed in part
        if name := item.metadata["Name"]:
            found.setdefault(normal(name), item)
    return found


def listed(distribution: metadata.Distribution) -> Iterator[Listed]:
    """Yield the files of a RECORD. `files` of importlib leaves out those that do not exist, from Python 3.12 on."""
    for name, value, *_ in filter(None, csv.reader((distribution.read_text("RECORD") or "").splitlines())):
        algorithm, _, code = value.partition("=")
        path = os.path.normpath(str(distribution.locate_file(name)))
        known = base64.urlsafe_b64decode(code + "=" * (-len(code) % 4)) if algorithm == "sha256" else None
        yield Listed(name, path, known)


def damaged(
    found: dict[str, metadata.Distribution], digests: Callable[[Iterable[str]], dict[str, bytes | None]]
) -> dict[str, dict[str, str]]:
    """Return which files of each package are not as it lists them, and how."""
    entries = {
        name: [file for file in listed(item) if file.digest and not file.name.endswith(".pyc")]
        for name, item in found.items()
    }
    owners: dict[str, set[bytes | None]] = defaultdict(set)
    for files in entries.values():
        for file in files:
            owners[file.path].add(file.digest)
    known = digests(owners)

    def state(file: Listed) -> str | None:
        content = known[file.path]
        if content == file.digest:
            return None
        # of two packages with the same file the last one installed wins
        return "missing" if content is None else "overwritten" if content in owners[file.path] else "changed"

    return {name: {file.name: how for file in files if (how := state(file))} for name, files in entries.items()}


def digests(paths: Iterable[str]) -> dict[str, bytes | None]:
    """Return the SHA-256 of files, which several threads read."""
    wanted = list(paths)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(wanted, pool.map(digest, wanted), strict=True))


def tree(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file of a source tree."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    names = ((path, path.relative_to(folder).as_posix()) for path in paths)
    return {name: (digest(str(path)) or b"").hex() for path, name in names if not MADE.search(name)}
