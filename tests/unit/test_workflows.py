"""The workflows of CI: what they use exists, and what they do works."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]


def test_the_workflow_of_images_uses_existing_tools_and_targets() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/images.yml").read_text(encoding="utf-8"))
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    commands = " ".join(step.get("run", "") for step in steps)
    assert "tools/changed.py" in commands and 'make "$TARGET" ID=' in commands
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "\nvalidate: " in makefile and "\nrehearse: " in makefile
    assert any("upload-artifact" in step.get("uses", "") for step in steps)


@pytest.mark.parametrize("changed", [False, True])
def test_the_scheduled_workflow_opens_the_difference_as_a_change(tmp_path: Path, changed: bool) -> None:
    """The last step of the workflow, in a repository with a remote, and with a program in the place of `gh`."""
    workflow = yaml.safe_load((ROOT / ".github/workflows/releases.yml").read_text(encoding="utf-8"))
    *_, step = workflow["jobs"]["outdated"]["steps"]
    remote, clone, programs = tmp_path / "remote", tmp_path / "clone", tmp_path / "bin"
    for name in ("matrices", "docs", "dockerfiles"):
        (clone / name).mkdir(parents=True)
        (clone / name / "file").write_text("one\n", encoding="utf-8")
    programs.mkdir()
    (programs / "gh").write_text('#!/bin/sh\necho "$@" > ../asked\n', encoding="utf-8")
    (programs / "gh").chmod(0o755)

    def git(*arguments: str, folder: Path = clone) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        return subprocess.run(
            ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
        ).stdout

    git("init", "--quiet", "--bare", str(remote))
    git("init", "--quiet", "--initial-branch", "main")
    git("remote", "add", "origin", str(remote))
    git("add", ".")
    git("commit", "--quiet", "--message", "one")
    if changed:
        (clone / "matrices" / "file").write_text("two\n", encoding="utf-8")
    subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        cwd=clone,
        check=True,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
    )
    branches = git("branch", "--format", "%(refname:short)", folder=remote).split()
    assert [name.startswith("releases/") for name in branches] == ([True] if changed else [])
    assert (tmp_path / "asked").is_file() == changed
