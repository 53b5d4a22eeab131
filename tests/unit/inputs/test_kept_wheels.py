"""The cache of wheels: its key covers all inputs, and it returns no broken wheel."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from envbuilder import files
from envbuilder.environment.packages import built_components
from envbuilder.files import own_folder
from envbuilder.inputs.kept_wheels import WheelCache, inputs_of
from envbuilder.matrix import Matrix, load
from envbuilder.plan import Inputs, SourceArchive, make_plan
from tests.conftest import A2_VLLM, Edit, environment

STAGE = "wheels-vllm_ascend"


def inputs(matrix: Matrix, identifier: str = A2_VLLM, base: str = "sha256:1", commit: str = "c") -> dict[str, Any]:
    """Return the inputs of the wheel with the plugin's kernels."""
    found = environment(matrix, identifier)
    sources = {
        name: SourceArchive(name, "git", commit, Path(f"{name}-{commit}.tar.gz"), f"digest of {name} {commit}", 0, ".")
        for name in built_components(found)
    }
    plan = make_plan(found, Inputs(sources))
    stage = next(item for item in plan.wheel_stages if item.name == STAGE)
    return inputs_of(plan, stage, base, "aarch64", sources)


def test_the_key_covers_everything_that_goes_into_a_wheel(matrix: Matrix, edit: Edit) -> None:
    before = inputs(matrix)
    assert inputs(matrix) == before
    assert inputs(matrix, base="sha256:2") != before
    assert inputs(matrix, commit="d") != before
    for name in ("torch", "torch-npu", "cmake"):
        assert inputs(with_another(matrix, name)) != before, name
    for file, old, new in [
        ("engines/vllm.yaml", "build-essential", "gcc"),
        (
            "engines/vllm.yaml",
            "COMPILE_CUSTOM_KERNELS: '${build.vllm_ascend.kernels_on}'",
            "COMPILE_CUSTOM_KERNELS: '0'",
        ),
        ("hardware/a2.yaml", "vllm_ascend: ascend910b1", "vllm_ascend: ascend910b2"),
    ]:
        folder = edit(file, old, new)
        assert inputs(load(folder)) != before, new
        (folder / file).unlink()


def test_a_change_elsewhere_does_not_rebuild_a_wheel(matrix: Matrix) -> None:
    for name in ("transformers", "ray", "torchvision"):
        assert inputs(with_another(matrix, name)) == inputs(matrix), name


def with_another(matrix: Matrix, package: str) -> Matrix:
    """Return the matrix with another hash of one package in the lock."""
    parts = matrix.lock_files(environment(matrix, A2_VLLM).coordinates.folder)
    part, text = next((part, text) for part, text in parts.items() if f"\n{package}==" in f"\n{text}")
    at = text.index("sha256:", f"\n{text}".index(f"\n{package}=="))
    parts[part] = text[: at + 7] + "f" * 64 + text[at + 71 :]

    class Changed(Matrix):
        def lock_files(self, folder: str) -> dict[str, str]:
            return parts

    changed = Changed.__new__(Changed)
    changed.__dict__.update(matrix.__dict__)
    return changed


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    path = tmp_path / "made" / "x-1-py3-none-any.whl"
    path.parent.mkdir()
    path.write_bytes(b"a wheel")
    return path


def test_kept_wheels_are_found_by_the_same_inputs_only(tmp_path: Path, wheel: Path) -> None:
    cache = WheelCache(tmp_path / "cache")
    assert cache.find(STAGE, {"a": 1}) == []
    cache.keep(STAGE, {"a": 1}, [wheel])
    assert [path.read_bytes() for path in cache.find(STAGE, {"a": 1})] == [b"a wheel"]
    assert cache.find(STAGE, {"a": 2}) == []
    assert cache.find("wheels-other", {"a": 1}) == []


@pytest.mark.parametrize("damage", ["bytes", "missing", "inputs"])
def test_broken_wheels_are_not_used_and_can_be_kept_again(tmp_path: Path, wheel: Path, damage: str) -> None:
    cache = WheelCache(tmp_path / "cache")
    cache.keep(STAGE, {"a": 1}, [wheel])
    (kept,) = cache.find(STAGE, {"a": 1})
    if damage == "bytes":
        kept.write_bytes(b"a whee")
    elif damage == "missing":
        kept.unlink()
    else:
        (kept.parent / "inputs.json").write_text("{")
    assert cache.find(STAGE, {"a": 1}) == []
    cache.keep(STAGE, {"a": 1}, [wheel])
    assert cache.find(STAGE, {"a": 1}) == [kept]
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [kept.parent.name], "no unfinished folder is left"


def test_other_users_can_read_kept_wheels(tmp_path: Path, wheel: Path) -> None:
    cache = WheelCache(tmp_path / "cache")
    before = os.umask(0o077)
    try:
        cache.keep(STAGE, {"a": 1}, [wheel])
    finally:
        os.umask(before)
    (kept,) = cache.find(STAGE, {"a": 1})
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (*kept.parent.iterdir(), *kept.parents[:2])}
    assert modes == {path: 0o755 if path.is_dir() else 0o644 for path in modes}


def test_only_the_folders_of_killed_builds_are_removed(tmp_path: Path, wheel: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    with own_folder(folder, ".new-") as another:
        (folder / ".new-left").mkdir()
        WheelCache(folder).keep(STAGE, {"a": 1}, [wheel])
        assert another.is_dir()
        assert not (folder / ".new-left").exists()
    (kept,) = WheelCache(folder).find(STAGE, {"a": 1})
    assert list(folder.iterdir()) == [kept.parent]


def test_wheels_are_kept_on_a_file_system_without_locks(
    tmp_path: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = files.locked

    def no_folders(path: Path, waiting: Callable[[], None] | None = None) -> AbstractContextManager[int]:
        if path.is_dir():
            raise OSError(errno.EBADF, "folders cannot be locked")
        return locked(path, waiting)

    monkeypatch.setattr(files, "locked", no_folders)
    cache = WheelCache(tmp_path / "cache")
    cache.keep(STAGE, {"a": 1}, [wheel])
    assert cache.find(STAGE, {"a": 1})
