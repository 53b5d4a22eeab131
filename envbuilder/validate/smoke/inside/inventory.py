"""Prints what an environment has, as JSON: packages and source trees with what is wrong with their files, and more.

    python inventory.py JOB

Runs in the environment that is validated, with the standard library only.
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from installed import damaged, digests, distributions, tree
from suspects import suspects

_OF_A_SHELL = {"_", "OLDPWD", "PATH", "PWD", "SHLVL"}


def main() -> None:
    job: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    sources, site = Path(job["sources"]), sysconfig.get_path("platlib")
    base, installed = sources.parent / "base.txt", distributions()
    wrong = damaged(installed, digests) if job["digests"] else {}
    found = {
        "python": ".".join(map(str, sys.version_info[:3])),
        "site": site,
        "packages": {
            name: {"version": item.version, "damaged": wrong.get(name, {})} for name, item in installed.items()
        },
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
