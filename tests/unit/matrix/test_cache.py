"""The cache of decoded matrices: equal to decoding, never stale, and not needed."""

from __future__ import annotations

import os
import pickle
import pwd
import shutil
from pathlib import Path

import pytest

from envbuilder import paths
from envbuilder.matrix import cache, load
from envbuilder.matrix.decode import decode_rows
from envbuilder.matrix.matrix import Matrix
from envbuilder.matrix.sources import find_files, find_locks
from envbuilder.registry.credentials import credentials_of


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "envbuilder" / "matrix.json"


def test_a_remembered_matrix_is_the_decoded_one(store: Path) -> None:
    first = load()
    assert store.is_file()
    second = load()
    assert second == first
    assert second is not first


def remembered(folder: Path) -> Matrix:
    files = find_files(folder)
    return cache.remembered(files, find_locks(folder, files))


def test_an_edited_file_is_decoded_again(store: Path, tmp_path: Path) -> None:
    shutil.copytree(paths.matrices(), tmp_path / "m")
    assert remembered(tmp_path / "m").hardware["cpu"].title == "CPU environment"
    file = tmp_path / "m" / "hardware" / "cpu.yaml"
    file.write_text(file.read_text().replace("CPU environment", "CPU Environment"), encoding="utf-8")
    assert remembered(tmp_path / "m").hardware["cpu"].title == "CPU Environment"


@pytest.mark.parametrize(
    "content", [b"", b"garbage", b"[[], {}]", b"[1]", b"\xff[]", b"[" * 50_000, b'[{"\x7f": "File"}, 1]']
)
def test_a_damaged_cache_is_replaced(store: Path, content: bytes) -> None:
    expected = load()
    store.write_bytes(content)
    assert load() == expected
    assert store.read_bytes() != content


def test_a_cache_runs_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever can write into the cache folder must not run commands as the user of it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    class Planted:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.system, (f"touch {tmp_path / 'owned'}",)

    load()
    for file in (tmp_path / "envbuilder" / name for name in ("matrix.json", "matrix.pickle")):
        file.write_bytes(pickle.dumps(Planted()))
    load()
    assert not (tmp_path / "owned").exists()


def test_a_cache_that_another_user_can_change_is_not_read(store: Path) -> None:
    expected = load()
    changed = store.read_text().replace("CPU environment", "another title")
    for mode in (0o620, 0o602):
        store.write_text(changed)
        store.chmod(mode)
        assert load() == expected
        assert store.stat().st_mode & 0o777 == 0o600 and store.read_text() != changed


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_cache_of_another_user_is_not_read(store: Path) -> None:
    expected = load()
    store.write_text(store.read_text().replace("CPU environment", "another title"))
    os.chown(store, 12345, 12345)
    assert load() == expected
    assert store.stat().st_uid == 0


def test_a_link_in_place_of_the_cache_is_not_read(store: Path, tmp_path: Path) -> None:
    expected = load()
    store.unlink()
    store.symlink_to("/dev/zero")
    assert load() == expected


def test_a_cache_that_cannot_be_written_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    for home in (str(tmp_path / "file"), "relative/path", "/proc/none"):
        monkeypatch.setenv("XDG_CACHE_HOME", home)
        files = find_files(None)
        assert load() == Matrix(**decode_rows(files).__dict__, files=files, locks=find_locks(None, files))


def test_a_user_without_a_home_gets_folders_in_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "DOCKER_CONFIG", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert paths.cache_folder() == Path("/.cache/envbuilder")
    assert paths.state_folder() == Path("/.local/state/envbuilder")
    assert credentials_of("registry.example") is None
