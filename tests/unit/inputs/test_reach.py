"""Sources that cannot be had are named at once, with what a mirror must hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuilder.environment import Environment
from envbuilder.environment.packages import submodules_of
from envbuilder.errors import NetworkError
from envbuilder.inputs.reach import require_sources
from envbuilder.inputs.source_archives import How, SourceOptions, obtain
from envbuilder.lock.index import Index
from envbuilder.matrix import Matrix, load
from tests.conftest import Edit, environment
from tests.helpers.repositories import git, make_bare, repository

ROW = "verl-v0.9.1-sglang-a3-x86_64"
# its plugin is in no package index, and its kernels need a submodule
SWIFT = "ms-swift-v4.5.2-vllm-a2-x86_64"


def options(mirror: Path | str | None, how: How = "auto") -> SourceOptions:
    return SourceOptions(how, Index("http://127.0.0.1:9/simple"), str(mirror) if mirror else None)


def error_of(row: Environment, mirror: Path | str, how: How = "auto", instead: str | None = None) -> NetworkError:
    with pytest.raises(NetworkError) as raised:
        require_sources(row, options(mirror, how), instead)
    return raised.value


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def swift(tmp_path: Path, edit: Edit) -> tuple[Environment, Path, Path]:
    """Return a row, a mirror of its plugin with a submodule, and the folder of the submodule in the mirror."""
    inner, outer = tmp_path / "mirror/catlass.git", tmp_path / "mirror/vllm-ascend.git"
    repository(inner, {"include/catlass.h": "2"})
    commit = repository(
        outer, {"setup.py": "1"}, {"csrc/third_party/catlass": (inner, "https://gitcode.com/cann/catlass.git")}
    )
    for place in (inner, outer):
        make_bare(place)
    matrix = load(edit("compat/vllm_ascend.yaml", pinned(), f"commit: {commit}"))
    return environment(matrix, SWIFT), tmp_path / "mirror", inner


def pinned() -> str:
    release = environment(load(), SWIFT).release("vllm_ascend")
    assert release is not None
    return f"commit: {release.commit}"


def test_all_sources_that_cannot_be_had_are_named_at_once(matrix: Matrix, tmp_path: Path) -> None:
    error = error_of(environment(matrix, ROW), tmp_path, instead="or so")
    first, *lines = error.message.splitlines()
    assert first == "3 sources cannot be fetched, without an alternative in a package index:"
    assert [line.split(",")[0] for line in lines] == [
        "  sgl-kernel-npu 2026.03.10.rc1", "  MindSpeed 0.16.0.20260710", "  Megatron-LM 0.16.2"
    ]  # fmt: skip
    assert "https://gitcode.com/Ascend/MindSpeed.git: the git mirror" in lines[1]
    assert error.hint is not None
    assert error.hint.endswith("it must hold sgl-kernel-npu.git, MindSpeed.git, Megatron-LM.git; or so")
    assert error.exit_code == 7


def test_hosts_that_do_not_answer_are_asked_and_nothing_is_fetched(matrix: Matrix, tmp_path: Path) -> None:
    error = error_of(environment(matrix, ROW), "file:///nowhere")
    assert error.message.count("\n") == 3
    assert not (tmp_path / "cache").exists()


def test_sources_of_the_package_index_need_no_repository(matrix: Matrix, tmp_path: Path) -> None:
    row = environment(matrix, "verl-v0.9.1-sglang-cpu-x86_64")
    require_sources(row, options(tmp_path))
    error = error_of(row, tmp_path, "git")
    assert error.message.startswith("1 source cannot be fetched:\n  SGLang v0.5.10, https://github.com/")
    assert (
        "no source archive is locked of sgl-kernel-npu" in error_of(environment(matrix, ROW), tmp_path, "sdist").message
    )


def test_a_mirror_with_everything_is_enough(swift: tuple[Environment, Path, Path], tmp_path: Path) -> None:
    row, mirror, _ = swift
    require_sources(row, options(mirror))
    obtain(row, "vllm_ascend", options(mirror), print)
    # the cache has it now
    require_sources(row, options(tmp_path))


def test_a_missing_submodule_is_named_by_its_path_and_address(swift: tuple[Environment, Path, Path]) -> None:
    row, mirror, inner = swift
    inner.rename(mirror / "other")
    error = error_of(row, mirror)
    [line] = error.message.splitlines()[1:]
    assert line.startswith("  submodule csrc/third_party/catlass of vllm-ascend v0.18.1.dev45, ")
    assert "https://gitcode.com/cann/catlass.git: the git mirror" in line
    assert error.hint is not None and error.hint.endswith("it must hold vllm-ascend.git, catlass.git")
    with pytest.raises(NetworkError, match=r"submodule csrc/third_party/catlass of vllm-ascend .* cannot be fetched"):
        obtain(row, "vllm_ascend", options(mirror), print)
    # a rehearsal compiles no kernels
    require_sources(row.rehearsed(), options(mirror))


def test_a_submodule_is_known_before_its_repository_is(matrix: Matrix, tmp_path: Path) -> None:
    row = environment(matrix, SWIFT)
    assert [item.path for item in submodules_of(row, "vllm_ascend")] == ["csrc/third_party/catlass"]
    error = error_of(row, tmp_path)
    assert "submodule csrc/third_party/catlass of vllm-ascend" in error.message
    assert error.hint is not None and error.hint.endswith("it must hold vllm-ascend.git, catlass.git")
    assert "catlass" not in str(error_of(row.rehearsed(), tmp_path).hint)


def test_a_mirror_that_is_too_old_is_named(matrix: Matrix, tmp_path: Path) -> None:
    repository(tmp_path / "vllm-ascend.git", {"setup.py": "1"})
    make_bare(tmp_path / "vllm-ascend.git")
    error = error_of(environment(matrix, SWIFT).rehearsed(), tmp_path)
    assert f"{tmp_path}/vllm-ascend.git does not have the commit" in error.message


def test_a_file_that_a_partial_mirror_lacks_is_named(swift: tuple[Environment, Path, Path]) -> None:
    row, mirror, inner = swift
    [(blob, _)] = [
        line.split() for line in git(inner, "rev-list", "--objects", "HEAD").splitlines() if "catlass.h" in line
    ]
    found = inner / "objects" / blob[:2] / blob[2:]
    if not found.exists():
        git(inner, "unpack-objects", "-q")
    found.unlink()
    error = error_of(row, mirror)
    assert "catlass.git lacks 1 file of the commit" in error.message
    assert "such as include/catlass.h" in error.message
