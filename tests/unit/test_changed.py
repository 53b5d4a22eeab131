"""The job matrix of CI has the environments that a change touches, and no others."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

import tools.changed
from envbuilder.matrix import Matrix, load
from tests.conftest import A2_VLLM, A3_SGLANG, Edit, environment
from tools.changed import changed, fingerprints, job

ROOT = Path(__file__).resolve().parents[2]
LOCKED = "verl-v0.6.0-sglang-cpu-aarch64"


def test_a_changed_row_touches_only_its_environments(edit: Edit) -> None:
    before = fingerprints(load(everything=True))
    after = fingerprints(
        load(edit("frameworks/verl/v0.6.0.yaml", "version: 4.56.1", "version: 4.56.2"), everything=True)
    )
    touched = {identifier for identifier, text in after.items() if before.get(identifier) != text}
    assert touched == {identifier for identifier in after if identifier.startswith("verl-v0.6.0-sglang-")}


def test_a_changed_smoke_run_touches_its_framework(edit: Edit) -> None:
    before = fingerprints(load(everything=True))
    after = fingerprints(load(edit("smoke/verl.yaml", "window: 5", "window: 4"), everything=True))
    touched = {identifier for identifier, text in after.items() if before.get(identifier) != text}
    assert touched == {identifier for identifier in after if identifier.startswith("verl-")}


def test_a_commit_is_compared_with_its_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example", *arguments], cwd=tmp_path, check=True)

    monkeypatch.setattr(tools.changed, "ROOT", tmp_path)
    for name in ("matrices", "dockerfiles"):
        shutil.copytree(ROOT / name, tmp_path / name)
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "same")
    assert changed("HEAD") == []
    lock = tmp_path / "dockerfiles" / LOCKED / "locks" / "pins.txt"
    lock.write_text(re.sub(r"sha256:\w{64}", "sha256:" + "f" * 64, lock.read_text(), count=1))
    git("commit", "--quiet", "--all", "--message", "another hash")
    assert changed("HEAD") == [LOCKED]


@pytest.mark.parametrize(
    ("identifier", "target", "base"),
    [
        (LOCKED, "validate", ""),
        (A3_SGLANG, "rehearse", ""),
        # Debian 12 has Python 3.11 only
        (A2_VLLM, "rehearse", "python:3.10"),
    ],
)
def test_a_job_proves_without_an_npu(matrix: Matrix, identifier: str, target: str, base: str) -> None:
    wanted = {"id": identifier, "arch": "aarch64", "target": target, "base": base}
    assert job(environment(matrix, identifier)) == wanted


def test_the_workflow_uses_existing_tools_and_targets() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/images.yml").read_text(encoding="utf-8"))
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    commands = " ".join(step.get("run", "") for step in steps)
    assert "tools/changed.py" in commands and 'make "$TARGET" ID=' in commands
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "\nvalidate: " in makefile and "\nrehearse: " in makefile
    assert any("upload-artifact" in step.get("uses", "") for step in steps)
