"""The files of a new release, from the newest one."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuilder.environment import Catalog
from envbuilder.matrix import load
from tests.conftest import run


@pytest.mark.parametrize("framework", ["verl", "openrlhf", "ms-swift", "roll"])
def test_a_new_release_can_be_checked_at_once(tmp_path: Path, framework: str) -> None:
    branch = "v99.0.0"
    folder = tmp_path / "mine"
    made = run("matrix", "init", framework, branch, "--matrices", str(folder))
    assert made.returncode == 0, made.stderr
    assert f"{folder}/frameworks/{framework}/{branch}.yaml" in made.stdout.split()
    rows = [item for item in Catalog(load(folder, everything=True)).environments if item.coordinates.branch == branch]
    assert rows and all(
        item.version(item.framework.component) == branch and branch in item.branch.title for item in rows
    )
    assert all("candidate" in str(item.release(item.framework.component).status) for item in rows)  # type: ignore[union-attr]
    # what is missing is named: the commit of a candidate is not known
    checked = run("check", f"{framework}-{branch}-*", "--matrices", str(folder))
    assert checked.returncode == 3 and branch in checked.stdout


def test_what_exists_is_not_written_again(tmp_path: Path) -> None:
    again = run("matrix", "init", "verl", "v0.9.1", "--matrices", str(tmp_path / "mine"))
    assert again.returncode == 2 and "has a row v0.9.1 already" in again.stderr
    unknown = run("matrix", "init", "verll", "v1.0.0", "--matrices", str(tmp_path / "mine"))
    assert unknown.returncode == 4 and not (tmp_path / "mine").exists()
