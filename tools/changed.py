"""Print the environments that a change affects, as the job matrix of a CI system.

    python tools/changed.py BASE

An environment is affected if its build context (with its lock) or its smoke run differs between the matrices of the
commit BASE and those of the working tree. If those of BASE can no longer be read, all environments are affected.
Environments without a lock are left out, because they cannot be built.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from envbuilder import paths
from envbuilder.environment import Catalog, Environment, Filters
from envbuilder.errors import EnvbuilderError
from envbuilder.matrix import Matrix, load
from envbuilder.plan import make_plan
from envbuilder.render import build_context

ROOT = Path(__file__).resolve().parent.parent


def fingerprints(matrix: Matrix) -> dict[str, str]:
    """Return the build context and the smoke run of each environment as text, by identifier."""
    found = {}
    for environment in Catalog(matrix).select((), Filters()):
        smoke = matrix.files.get(f"smoke/{environment.framework.name}.yaml")
        smoke_text = smoke.path.read_text(encoding="utf-8") if smoke else ""
        found[environment.id] = json.dumps([build_context(make_plan(environment)), smoke_text])
    return found


def base_of(environment: Environment) -> str | None:
    """Return the base image of a rehearsal whose Python Debian does not have."""
    python, base = environment.packages.python, environment.stand_in and environment.stand_in.base.python
    return f"python:{python}" if python != base else None


def matrices_of(commit: str, folder: Path) -> Path:
    """Write the matrices of a commit with their locks below a folder; return the folder of the matrices."""
    command = ["git", "archive", commit, "matrices", "dockerfiles"]
    archive = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)  # noqa: S603
    # not with tarfile: Python 3.11 of Debian 12 has no filter argument, and newer ones warn without it
    subprocess.run(["tar", "--extract", "--directory", folder], input=archive.stdout, check=True)  # noqa: S603, S607
    matrices = folder / "matrices"
    for locks in folder.glob("dockerfiles/*/*/*/locks"):
        # a folder of matrices keeps its locks elsewhere and has no Dockerfiles
        target = paths.lock_folder(matrices, str(locks.parent.relative_to(folder / "dockerfiles")))
        target.parent.mkdir(parents=True, exist_ok=True)
        locks.rename(target)
    return matrices


def changed(commit: str) -> set[str]:
    now = fingerprints(load(everything=True))
    with tempfile.TemporaryDirectory() as name:
        try:
            before = fingerprints(load(matrices_of(commit, Path(name)), everything=True))
        except EnvbuilderError:
            before = {}
    return {identifier for identifier, text in now.items() if before.get(identifier) != text}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("base")
    affected = changed(parser.parse_args().base)
    every = Catalog(load(everything=True)).select((), Filters())
    jobs = [{"id": item.id, "arch": item.coordinates.arch} for item in every if item.lock and item.id in affected]
    print(json.dumps(jobs))


if __name__ == "__main__":
    main()
