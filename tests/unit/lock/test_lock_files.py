"""Locks on disk: a partly written lock is never taken for a complete one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from envbuilder.environment.locks import ORIGIN, PARTS, Lock, LockedPackage, read_lock
from envbuilder.files import write_text
from envbuilder.lock import uv
from envbuilder.lock.index import Index
from envbuilder.matrix import Matrix, load
from envbuilder.process import Finished
from tests.conftest import A2_VLLM, Edit, environment, findings


def lock(version: str, *parts: str) -> Lock:
    item = LockedPackage("torch", version, ("0" * 64,))
    return Lock({name: (item,) if name in parts else () for name in PARTS}, "1" * 64, {}, "uv 1")


def read(folder: Path) -> Lock | None:
    return read_lock({path.stem: path.read_text() for path in folder.iterdir()})


def test_a_lock_replaces_all_parts_of_another(tmp_path: Path) -> None:
    (tmp_path / "wheels-x.txt").write_text("not a part of it")
    for wanted in (lock("1", "build", "pins"), lock("2", "pins")):
        assert uv.save_lock(wanted, tmp_path)
        assert read(tmp_path) == wanted
        assert not uv.save_lock(wanted, tmp_path)
    assert {path.stem for path in tmp_path.iterdir()} == {ORIGIN, "pins", "wheels-x"}


@pytest.mark.parametrize("last", [ORIGIN, "build", "pins"])
def test_a_partly_written_lock_is_stale(last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its digest of the inputs is removed, as the same inputs can be locked again with other versions."""
    uv.save_lock(lock("1", "build", "pins"), tmp_path)

    def interrupted(path: Path, text: str) -> bool:
        if path.stem == last:
            raise KeyboardInterrupt
        return write_text(path, text)

    monkeypatch.setattr("envbuilder.lock.uv.write_text", interrupted)
    with pytest.raises(KeyboardInterrupt):
        uv.save_lock(lock("2", "build", "pins"), tmp_path)
    found = read(tmp_path)
    assert found is not None and found.inputs == ""


def test_a_lock_in_other_parts_is_stale(edit: Edit, matrix: Matrix) -> None:
    """A package that source builds need would be missing where they run."""
    assert findings(matrix, A2_VLLM, "lock-stale") == []
    folder = edit("engines/vllm.yaml", "build_packages: [\n", "build_packages: [\n  tqdm,\n")
    assert findings(load(folder), A2_VLLM, "lock-stale")


@pytest.mark.parametrize("name", ["no_proxy", "NO_PROXY"])
def test_uv_reaches_an_index_on_this_machine_without_a_proxy(
    name: str, matrix: Matrix, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uv reads one of the two spellings; the hosts that the user names must stay in it."""
    seen: dict[str, str] = {}

    def run(command: list[str], *, cwd: Path, variables: Mapping[str, str]) -> Finished:
        seen.update(variables)
        return Finished(2, b"", b"no solution")

    for other in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, "intranet.example")
    monkeypatch.setattr("envbuilder.lock.uv.run", run)
    monkeypatch.setattr("envbuilder.lock.uv.uv_program", lambda: "uv")
    addresses = {"https://other.example": "http://127.0.0.1:1/simple/"}
    uv._resolve(environment(matrix, A2_VLLM).packages, {}, Index("https://index.example"), addresses)
    assert seen["no_proxy"] == seen["NO_PROXY"] == "intranet.example,127.0.0.1"
