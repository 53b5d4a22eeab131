"""Prints the packages and source trees of an environment as JSON, with what is wrong with their files.

    python inventory.py SOURCES [COMPONENT...]

Runs in the environment that is validated, with the standard library only.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

_CHUNK = 1 << 20
# of an editable installation, of Python, of git
_MADE = re.compile(r"\.egg-info/|(^|/)__pycache__/|^\.git/")


def digest(path: str) -> bytes | None:
    """Return the SHA-256 of a file, or None if it cannot be read."""
    found = hashlib.sha256()
    try:
        with Path(path).open("rb") as file:
            while chunk := file.read(_CHUNK):
                found.update(chunk)
    except OSError:
        return None
    return found.digest()


def recorded(distribution: metadata.Distribution) -> Iterator[tuple[str, str, bytes]]:
    """Yield the name, the path and the SHA-256 of each file whose SHA-256 a distribution lists in its RECORD."""
    for file in distribution.files or []:
        if file.hash is not None and file.hash.mode == "sha256" and file.suffix != ".pyc":
            value = base64.urlsafe_b64decode(file.hash.value + "=" * (-len(file.hash.value) % 4))
            yield str(file), os.path.normpath(str(distribution.locate_file(file))), value


def main() -> None:
    distributions: dict[str, metadata.Distribution] = {}
    for item in metadata.distributions():
        # the first on the path is the one that is imported
        distributions.setdefault(re.sub(r"[-_.]+", "-", item.metadata["Name"]).lower(), item)
    files = {name: list(recorded(item)) for name, item in distributions.items()}
    owners: dict[str, set[bytes]] = defaultdict(set)
    for listed in files.values():
        for _, path, value in listed:
            owners[path].add(value)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(owners, pool.map(digest, owners), strict=True))

    def state(path: str, wanted: bytes) -> str | None:
        if found[path] == wanted:
            return None
        # of two packages with the same file the last one installed wins
        return "missing" if found[path] is None else "overwritten" if found[path] in owners[path] else "changed"

    packages = {
        name: {
            "version": distributions[name].version,
            "damaged": {file: how for file, path, wanted in listed if (how := state(path, wanted))},
        }
        for name, listed in files.items()
    }
    sources, components = Path(sys.argv[1]), sys.argv[2:]
    base = sources.parent / "base.txt"
    print(  # noqa: T201
        json.dumps(
            {
                "python": ".".join(map(str, sys.version_info[:3])),
                "site": sysconfig.get_path("platlib"),
                "packages": packages,
                "base": base.read_text(encoding="utf-8").splitlines() if base.is_file() else None,
                "trees": {name: tree(sources / name) for name in components},
            }
        )
    )


def tree(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file of a source tree."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    names = ((path, path.relative_to(folder).as_posix()) for path in paths)
    return {name: (digest(str(path)) or b"").hex() for path, name in names if not _MADE.search(name)}


main()
