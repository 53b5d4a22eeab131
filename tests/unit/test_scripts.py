"""The scripts behind make: the check of the disk, and the programs that tests need."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Result

ROOT = Path(__file__).resolve().parents[2]
TOO_MUCH = str(10**6)


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


def script(folder: Path, *words: str) -> Result:
    """Run a script with the programs of a folder before those of this machine."""
    # a make that runs these tests names the folder in the output of another
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    variables = {**inherited, "PATH": f"{folder}:{os.environ['PATH']}"}
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT, env=variables)


def test_a_disk_with_space_is_enough(tmp_path: Path) -> None:
    program(tmp_path, "docker", "exit 1")
    result = script(tmp_path, "tools/room.sh", "make test", "0", str(tmp_path / "made later"))
    assert result.returncode == 0 and result.stderr.startswith("make test needs 0 GB of disk; "), result.stderr


@pytest.mark.parametrize("answers", [True, False], ids=["engine of the user", "no engine"])
def test_a_disk_without_space_is_named(tmp_path: Path, answers: bool) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    ours.mkdir()
    program(tmp_path, "docker", f"echo {theirs}" if answers else "exit 1")
    result = script(tmp_path, "tools/room.sh", "make test", TOO_MUCH, str(ours))
    assert result.returncode == 5
    assert result.stderr.startswith(f"error: make test needs {TOO_MUCH} GB of disk; ")
    assert result.stderr.endswith(f" are free in {theirs if answers else ours}\n")


@pytest.mark.parametrize("target", ["test", "extended"])
def test_tests_without_space_start_nothing(tmp_path: Path, target: str) -> None:
    program(tmp_path, "docker", "exit 1")
    result = script(tmp_path, "make", target, f"ROOM={TOO_MUCH}", f"EXTENDED_ROOM={TOO_MUCH}", f"ENGINE={tmp_path}/e")
    assert f"error: make {target} needs {TOO_MUCH} GB" in result.stderr and "Error 5" in result.stderr
    assert result.stdout == "" and not (tmp_path / "e").exists()


def test_missing_programs_are_installed_with_their_reasons(tmp_path: Path) -> None:
    program(tmp_path, "apt-get", f'echo "$@" >> {tmp_path}/calls')
    words = ("sh:dash:a shell", f"{tmp_path}:base-files:a file", "none-such:no-such-package:for a test")
    result = script(tmp_path, "tools/programs.sh", *words)
    assert result.stdout == "installing with apt-get:\n  no-such-package, for a test\n"
    assert (tmp_path / "calls").read_text().splitlines()[-1].endswith("--no-install-recommends no-such-package")
    assert script(tmp_path, "tools/programs.sh", *words[:2]).stdout == ""


@pytest.mark.slow
def test_the_newest_release_of_a_framework_is_drafted_and_every_row_compared(tmp_path: Path) -> None:
    outdated = {
        "components": [{"component": "ms_swift", "newer": ["98.0.0", "99.0.0"]}, {"component": "torch", "newer": ["9"]}]
    }
    done = subprocess.run(
        [sys.executable, "-m", "tools.drafts"], cwd=ROOT, input=json.dumps(outdated), capture_output=True, text=True,
        env={**os.environ, "ENVBUILDER_GIT_MIRROR": str(tmp_path)}, check=True,
    )  # fmt: skip
    drafts, _, compared = done.stdout.partition("## Rows compared with their sources")
    assert re.findall("^### (.*)$", drafts, re.M) == ["ms-swift v99.0.0"]
    # a release that cannot be drafted does not keep the others back
    assert "has no modelscope/ms-swift.git" in drafts
    assert {"ms-swift v4.5.2", "verl v0.9.0"} <= set(re.findall("^### (.*)$", compared, re.M))
