"""Files are replaced whole; what is no file, a link, or somebody's permissions stay."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path

import pytest

from envbuilder.files import replacing, write_text


def test_a_link_stays_and_leads_to_the_new_text(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert write_text(tmp_path / "link", "one")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "file").read_text() == "one"
    assert not write_text(tmp_path / "link", "one")


def test_permissions_are_the_users(tmp_path: Path) -> None:
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


def test_what_a_killed_writer_left_is_cleared(tmp_path: Path) -> None:
    left, alive, young = (tmp_path / f".file.{number * 8}~" for number in "123")
    for item in (left, alive, young):
        item.touch()
    for item in (left, alive):
        os.utime(item, (0, 0))
    (tmp_path / ".file.notes").touch()
    with alive.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        write_text(tmp_path / "file", "one")
    assert sorted(item.name for item in tmp_path.iterdir()) == [alive.name, young.name, ".file.notes", "file"]


def test_nothing_is_replaced_where_something_fails(tmp_path: Path) -> None:
    write_text(tmp_path / "file", "one")
    with pytest.raises(ZeroDivisionError), replacing(tmp_path / "file") as unfinished:
        unfinished.write_text(str(1 / 0))
    assert [(item.name, item.read_text()) for item in tmp_path.iterdir()] == [("file", "one")]
