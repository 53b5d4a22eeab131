"""Print the environments that a change affects, as the job matrix of a CI system: [{"id": ..., "arch": ...}].

    python tools/changed.py BASE [--hw NAME]

An environment is affected if its build context (with its lock) or its smoke run differs between the matrices of the
commit BASE and those of the working tree. If those of BASE can no longer be read, all environments are.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from envbuilder import paths
from envbuilder.environment import Catalog, Filters
from envbuilder.environment.select import environments
from envbuilder.errors import EnvbuilderError
from envbuilder.matrix import Matrix, load
from envbuilder.plan import make_plan
from envbuilder.render import build_context

ROOT = Path(__file__).resolve().parent.parent


def fingerprints(matrix: Matrix, hardware: str | None) -> dict[str, str]:
    """Return the build context and the smoke run of each environment as text, by identifier."""
    found = {}
    for environment in Catalog(matrix).select((), Filters(hardware=hardware)):
        smoke = matrix.files.get(f"smoke/{environment.framework.name}.yaml")
        smoke_text = smoke.path.read_text(encoding="utf-8") if smoke else ""
        found[environment.id] = json.dumps([build_context(make_plan(environment)), smoke_text])
    return found


def matrices_of(commit: str, folder: Path) -> Path:
    """Write the matrices of a commit, with their locks, below a folder, and return theirs."""
    command = ["git", "archive", commit, "matrices", "dockerfiles"]
    archive = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)  # noqa: S603
    # with tar: the Python of Debian 12 has no filter for archives, and newer ones warn without one
    subprocess.run(["tar", "--extract", "--directory", folder], input=archive.stdout, check=True)  # noqa: S603, S607
    matrices = folder / "matrices"
    for locks in folder.glob("dockerfiles/*/locks"):
        # a folder of matrices has its own locks, and no Dockerfiles
        target = paths.lock_folder(matrices, locks.parent.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        locks.rename(target)
    return matrices


def changed(commit: str, hardware: str | None) -> list[str]:
    now = fingerprints(load(everything=True), hardware)
    with tempfile.TemporaryDirectory() as name:
        try:
            before = fingerprints(load(matrices_of(commit, Path(name)), everything=True), hardware)
        except EnvbuilderError:
            before = {}
    return [identifier for identifier, text in now.items() if before.get(identifier) != text]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("base")
    parser.add_argument("--hw")
    arguments = parser.parse_args()
    arches = {item.id: item.arch for item in environments(load())}
    print(json.dumps([{"id": item, "arch": arches[item]} for item in changed(arguments.base, arguments.hw)]))


if __name__ == "__main__":
    main()
