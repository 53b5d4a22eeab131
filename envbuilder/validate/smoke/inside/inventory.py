"""Prints what an environment has, as JSON: packages and source trees with what is wrong with their files, and more.

    python inventory.py JOB

Runs in the environment that is validated, with the standard library only.
"""

from __future__ import annotations

import base64
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

from suspects import suspects

_CHUNK = 1 << 20
# of an editable installation, of Python, of git
_MADE = re.compile(r"\.egg-info/|(^|/)__pycache__/|^\.git/")
_OF_A_SHELL = {"_", "OLDPWD", "PATH", "PWD", "SHLVL"}


def main() -> None:
    job: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    sources, site = Path(job["sources"]), sysconfig.get_path("platlib")
    base = sources.parent / "base.txt"
    found = {
        "python": ".".join(map(str, sys.version_info[:3])),
        "site": site,
        "packages": packages(),
        "base": base.read_text(encoding="utf-8").splitlines() if base.is_file() else None,
        "trees": {name: tree(sources / name) for name in job["trees"]},
        "conflicts": conflicts(),
        "variables": list(os.environ),
        "scripts": {script: variables_of(script) for script in job["scripts"]},
        "libraries": libraries(job["libraries"]),
        "products": [product(site, item["file"], item["links"]) for item in job["products"]],
        "leftovers": {pattern: files(pattern) for pattern in job["leftovers"]},
        "suspects": suspects(job["sources"], job["vendor"]) if job["suspects"] else {},
    }
    print(json.dumps(found))


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


def packages() -> dict[str, dict[str, Any]]:
    """Return the version of each package, and which of its files are not as it lists them."""
    distributions: dict[str, metadata.Distribution] = {}
    for item in metadata.distributions():
        # the first on the path is the one that is imported
        distributions.setdefault(re.sub(r"[-_.]+", "-", item.metadata["Name"]).lower(), item)
    listed = {name: list(recorded(item)) for name, item in distributions.items()}
    owners: dict[str, set[bytes]] = defaultdict(set)
    for entries in listed.values():
        for _, path, value in entries:
            owners[path].add(value)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(owners, pool.map(digest, owners), strict=True))

    def state(path: str, wanted: bytes) -> str | None:
        if found[path] == wanted:
            return None
        # of two packages with the same file the last one installed wins
        return "missing" if found[path] is None else "overwritten" if found[path] in owners[path] else "changed"

    return {
        name: {
            "version": distributions[name].version,
            "damaged": {file: how for file, path, wanted in entries if (how := state(path, wanted))},
        }
        for name, entries in listed.items()
    }


def tree(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file of a source tree."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    names = ((path, path.relative_to(folder).as_posix()) for path in paths)
    return {name: (digest(str(path)) or b"").hex() for path, name in names if not _MADE.search(name)}


def output_of(command: list[str], **options: Any) -> str:
    options = {"stderr": subprocess.DEVNULL, **options}
    answer = subprocess.run(command, stdout=subprocess.PIPE, check=False, **options)  # noqa: S603
    return str(answer.stdout, "utf-8", "replace")


def conflicts() -> list[str] | None:
    """Return the complaints of uv about requirements, or None where it is not installed."""
    uv = shutil.which("uv")
    if uv is None:
        return None
    variables = {name: value for name, value in os.environ.items() if name != "RUST_LOG"}
    command = [uv, "--color", "never", "--no-cache", "pip", "check", "--python", sys.executable]
    return output_of(command, stderr=subprocess.STDOUT, env=variables).splitlines()


def variables_of(script: str) -> list[str] | None:
    """Return the variables that a script sets in a shell that has nothing, or None where it does not exist."""
    if not Path(script).is_file():
        return None
    shown = output_of(["env", "-i", "bash", "-c", '. "$0" >&2; env', script])
    return sorted({line.partition("=")[0] for line in shown.splitlines() if "=" in line} - _OF_A_SHELL)


def libraries(names: list[str]) -> list[str]:
    """Return the libraries that the linker finds."""
    folders = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    cache = output_of(["/sbin/ldconfig", "-p"])
    return [name for name in names if name in cache or any(Path(folder, name).exists() for folder in folders)]


def product(site: str, pattern: str, library: str | None) -> dict[str, bool]:
    """Return the files that a pattern names, with whether they are linked with a library."""
    # a pattern within a source tree is absolute, which Path cannot search
    return {
        path: library is None or library.encode() in Path(path).read_bytes()
        for path in sorted(glob.glob(f"{site}/{pattern}" if not pattern.startswith("/") else pattern))  # noqa: PTH207
    }


def files(pattern: str) -> dict[str, int]:
    """Return the files that a pattern names, and those in the folders that it names, with their sizes."""
    names = glob.glob(pattern)  # noqa: PTH207
    found = [item for name in names for item in [Path(name), *Path(name).rglob("*")]]
    return {str(item): item.stat().st_size for item in found if item.is_file() and not item.is_symlink()}


if __name__ == "__main__":
    main()
