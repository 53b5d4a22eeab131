"""The folder of a build goes away with it, or with the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from envbuilder.files import turn, workspace


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_goes_away_with_its_owner(temporary: Path) -> None:
    def interrupted() -> None:
        with workspace() as folder:
            assert folder.parent == temporary
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(temporary.iterdir()) == []


def test_the_next_one_clears_what_a_killed_one_left(temporary: Path) -> None:
    code = "import time\nfrom envbuilder.files import turn, workspace\nwith workspace() as f: print(f, flush=True); time.sleep(60)"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(temporary)}
    )
    assert process.stdout is not None
    with process.stdout as output:
        left = Path(output.readline().strip())
        with workspace():
            assert left.is_dir(), "its owner is alive"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert left.is_dir()
    with workspace():
        assert not left.exists()


def test_one_that_was_killed_while_it_made_or_cleared_its_folder_is_cleared_too(temporary: Path) -> None:
    with workspace() as folder:
        assert list(folder.iterdir()) == [], "nothing in it tells that it is in use"
        left = temporary / f"{folder.name}x"
        left.mkdir()
    with workspace():
        assert not left.exists()


def test_builds_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    code = "import sys\nfrom envbuilder.files import turn\nwith turn('x', lambda: print('waits', flush=True)): print('works', flush=True)"
    with turn("x", lambda: pytest.fail("nobody else is there")):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
    with process.stdout as output:
        assert output.readline() == "works\n"
    assert process.wait() == 0
