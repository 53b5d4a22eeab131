"""Files are replaced whole, temporary folders are removed, and builds take turns."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from envbuilder.files import replacing, turn, workspace, write_new, write_text
from tests.conftest import run


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


# --- temporary folders -----------------------------------------------------------------------------------


def test_a_folder_is_removed_when_its_build_is_interrupted(temporary: Path) -> None:
    def interrupted() -> None:
        with workspace() as folder:
            assert folder.parent == temporary
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(temporary.iterdir()) == []


def test_the_next_build_removes_the_folder_of_a_killed_one(temporary: Path) -> None:
    code = "import time\nfrom envbuilder.files import workspace\nwith workspace() as f: print(f, flush=True); time.sleep(60)"
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


def test_the_next_build_removes_a_folder_that_was_never_locked(temporary: Path) -> None:
    with workspace() as folder:
        assert list(folder.iterdir()) == [], "no file in it marks it as used"
        left = temporary / f"{folder.name}x"
        left.mkdir()
    with workspace():
        assert not left.exists()


# --- locks between processes -----------------------------------------------------------------------------


def test_builds_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    code = "import sys\nfrom envbuilder.files import turn\nwith turn('x', lambda: print('waits', flush=True)): print('works', flush=True)"
    with turn("x", lambda: pytest.fail("no other process has the turn")):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
    with process.stdout as output:
        assert output.readline() == "works\n"
    assert process.wait() == 0


# --- writing ---------------------------------------------------------------------------------------------


def test_a_link_is_kept_and_its_target_written(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert write_text(tmp_path / "link", "one")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_text() == "one"
    assert not write_text(tmp_path / "link", "one")


def test_permissions_follow_the_umask_and_are_kept(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        write_text(tmp_path / "file", "one")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    (tmp_path / "file").chmod(0o750)
    write_text(tmp_path / "file", "two")
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o750


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "one")
    reader.join()
    assert read == ["one"] and pipe.is_fifo()


def test_files_of_killed_writers_are_removed(tmp_path: Path) -> None:
    left, alive, young = (tmp_path / f".file.{number * 8}~" for number in "123")
    for item in (left, alive, young):
        item.touch()
    # the clock was ahead when one of them was killed
    ahead = tmp_path / ".file.44444444~"
    ahead.touch()
    os.utime(ahead, (2**32, 2**32))
    for item in (left, alive):
        os.utime(item, (0, 0))
    (tmp_path / ".file.notes").touch()
    with alive.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        write_text(tmp_path / "file", "one")
    assert sorted(item.name for item in tmp_path.iterdir()) == [alive.name, young.name, ".file.notes", "file"]


def test_a_failed_write_replaces_nothing(tmp_path: Path) -> None:
    write_text(tmp_path / "file", "one")
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "file") as unfinished:
        unfinished.write_text(str(1 / 0))
    assert [(item.name, item.read_text()) for item in tmp_path.iterdir()] == [("file", "one")]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a link of another user")
@pytest.mark.parametrize("output", ["file", "folder/file"])
def test_a_link_that_another_user_has_planted_is_not_followed(tmp_path: Path, output: str) -> None:
    """`-o /tmp/x`, where somebody else has made /tmp/x a link to a file of this user."""
    shared, own = tmp_path / "shared", tmp_path / "own"
    shared.mkdir()
    own.mkdir()
    shared.chmod(0o1777)
    (own / "file").write_text("mine")
    link = shared / output.partition("/")[0]
    link.symlink_to(own if "/" in output else own / "file")
    os.lchown(link, 12345, 12345)
    result = run("render", "verl-v0.6.0-sglang-a3-aarch64", "-o", str(shared / output))
    assert result.returncode == 1 and f"{link} is a link that another user has made" in result.stderr
    assert (own / "file").read_text() == "mine"
    os.lchown(link, 0, 0)
    assert run("render", "verl-v0.6.0-sglang-a3-aarch64", "-o", str(shared / output)).returncode == 0
    assert (own / "file").read_text() != "mine", "a link of this user is followed"


def test_a_new_file_is_whole_and_replaces_nothing(tmp_path: Path) -> None:
    write_new(tmp_path / "file", b"one", 0o600)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600
    (tmp_path / "link").symlink_to("elsewhere")
    for name in ("file", "link"):
        with pytest.raises(FileExistsError):
            write_new(tmp_path / name, b"two", 0o600)
    assert sorted(item.name for item in tmp_path.iterdir()) == ["file", "link"]
    assert (tmp_path / "file").read_bytes() == b"one"
