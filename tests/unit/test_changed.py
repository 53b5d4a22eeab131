"""The job matrix of CI has the environments that a change affects, and no others."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from envbuilder.environment import Catalog, Filters
from envbuilder.matrix import Matrix

ROOT = Path(__file__).resolve().parents[2]
LOCKED = "verl-v0.6.0-sglang-cpu-aarch64"
IDENTITY = ("-c", "user.name=t", "-c", "user.email=t@example")


class Base:
    """A copy of the repository that the working tree is compared with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("matrices", "dockerfiles", "tools"):
            shutil.copytree(ROOT / name, folder / name)

    def replace(self, file: str, old: str, new: str) -> None:
        text = (self.folder / file).read_text(encoding="utf-8")
        changed = re.sub(old, new, text, count=1)
        assert changed != text, f"{file} does not hold {old}"
        (self.folder / file).write_text(changed, encoding="utf-8")

    def jobs(self) -> list[dict[str, str]]:
        for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "base"]):
            subprocess.run(["git", *IDENTITY, *arguments], cwd=self.folder, check=True)
        command = [sys.executable, str(self.folder / "tools/changed.py"), "HEAD"]
        shown = subprocess.run(command, capture_output=True, text=True, check=True)
        found: list[dict[str, str]] = json.loads(shown.stdout)
        return found


@pytest.fixture
def base(tmp_path: Path) -> Base:
    return Base(tmp_path)


def locked(matrix: Matrix, start: str) -> set[str]:
    every = Catalog(matrix).select((), Filters())
    return {item.id for item in every if item.id.startswith(start) and item.lock is not None}


@pytest.mark.parametrize(
    ("file", "old", "new", "touched"),
    [
        ("matrices/frameworks/verl/v0.6.0.yaml", "version: 4.56.1", "version: 4.56.2", "verl-v0.6.0-sglang-"),
        ("matrices/smoke/verl.yaml", "window: 5", "window: 4", "verl-"),
        ("dockerfiles/verl/v0.6.0/sglang-cpu-aarch64/locks/pins.txt", r"sha256:\w{64}", "sha256:" + "f" * 64, LOCKED),
    ],
    ids=["a row", "a smoke run", "a lock"],
)
def test_a_change_touches_only_its_environments(
    base: Base, matrix: Matrix, file: str, old: str, new: str, touched: str
) -> None:
    base.replace(file, old, new)
    found = {job["id"] for job in base.jobs()}
    assert found and found == locked(matrix, touched)


def test_an_equal_base_has_no_jobs(base: Base) -> None:
    assert base.jobs() == []


def test_a_base_that_cannot_be_read_touches_everything(base: Base, matrix: Matrix) -> None:
    base.replace("matrices/matrix.yaml", "^", "unknown: key\n")
    found = {job["id"]: job for job in base.jobs()}
    assert set(found) == locked(matrix, "")
    assert found[LOCKED] == {"id": LOCKED, "arch": "aarch64"}
