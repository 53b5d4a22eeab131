"""Source archives: complete with submodules, reproducible, and made from mirrors."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from envbuilder.environment.locks import Lock
from envbuilder.errors import NetworkError
from envbuilder.inputs.source_archives import How, SourceOptions, cached, obtain
from envbuilder.inputs.source_trees import tree_hashes
from envbuilder.lock.index import Index, IndexFile
from envbuilder.matrix import Matrix, load
from envbuilder.plan import SourceArchive, Step
from tests.conftest import A2_VLLM, Edit, environment
from tests.helpers.repositories import make_bare, repository

COMMIT = "commit: c69ceaca1ecc6b7546b4235465fa1d0d90d902af"  # of vllm-ascend in the row of A2_VLLM


def origin(mirror: str | None, how: How = "git") -> SourceOptions:
    return SourceOptions(how, Index("http://127.0.0.1:9/simple"), mirror)


def names(source: SourceArchive) -> list[str]:
    with tarfile.open(source.archive) as archive:
        return sorted(member.name for member in archive if member.isfile())


@pytest.fixture
def mirrored(tmp_path: Path, edit: Edit, monkeypatch: pytest.MonkeyPatch) -> tuple[Matrix, Path]:
    """Mirror vllm-ascend with a submodule of another host, which has a submodule with a relative address."""
    # repositories that are made in the same second have the same commits, so each test has its own cache
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    mirror = tmp_path / "mirror"
    deep = mirror / "cann" / "deep.git"
    repository(deep, {"deep.h": "3"})
    inner = mirror / "cann" / "catlass.git"
    twice = dict.fromkeys(("deps/deep", "deps/again"), (deep, "../deep.git"))
    repository(inner, {"include/catlass.h": "2"}, twice)
    outer = mirror / "vllm-project" / "vllm-ascend.git"
    commit = repository(
        outer, {"setup.py": "1"}, {"csrc/third_party/catlass": (inner, "https://other.example/cann/catlass.git")}
    )
    for place in (deep, inner, outer):
        make_bare(place)
    return load(edit("compat/vllm_ascend.yaml", COMMIT, f"commit: {commit}")), mirror


def test_an_archive_holds_the_submodules(mirrored: tuple[Matrix, Path]) -> None:
    matrix, mirror = mirrored
    source = obtain(environment(matrix, A2_VLLM), "vllm_ascend", origin(str(mirror)), print)
    assert names(source) == [
        ".gitmodules", "csrc/third_party/catlass/.gitmodules", "csrc/third_party/catlass/deps/again/deep.h",
        "csrc/third_party/catlass/deps/deep/deep.h", "csrc/third_party/catlass/include/catlass.h", "setup.py",
    ]  # fmt: skip


def test_the_same_commit_gives_the_same_archive(mirrored: tuple[Matrix, Path]) -> None:
    matrix, mirror = mirrored
    first = obtain(environment(matrix, A2_VLLM), "vllm_ascend", origin(str(mirror)), print)
    first.archive.unlink()
    # the first one is read from the repository, the second one is fetched from it
    again = obtain(environment(matrix, A2_VLLM), "vllm_ascend", origin(f"file://{mirror}"), print)
    assert again.sha256 == first.sha256


def test_git_settings_of_the_user_do_not_change_the_archive(
    mirrored: tuple[Matrix, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix, mirror = mirrored
    first = obtain(environment(matrix, A2_VLLM), "vllm_ascend", origin(str(mirror)), print)
    first.archive.unlink()
    settings = "[core]\nautocrlf = true\nattributesFile = {0}/attributes\n[tar]\numask = 0077\n"
    (tmp_path / "config").write_text(settings.format(tmp_path))
    (tmp_path / "attributes").write_text("* text eol=crlf\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    again = obtain(environment(matrix, A2_VLLM), "vllm_ascend", origin(str(mirror)), print)
    assert again.sha256 == first.sha256


def test_a_missing_repository_is_an_error(mirrored: tuple[Matrix, Path], tmp_path: Path) -> None:
    matrix, _ = mirrored
    (tmp_path / "empty").mkdir()
    with pytest.raises(NetworkError, match=r"has no vllm-project/vllm-ascend\.git"):
        obtain(environment(matrix, A2_VLLM), "vllm_ascend", origin(str(tmp_path / "empty")), print)
    with pytest.raises(NetworkError, match="cannot be fetched"):
        obtain(environment(matrix, A2_VLLM), "vllm_ascend", origin("file:///nowhere"), print)


class OneArchive:
    """An index with one source archive, which counts its downloads."""

    def __init__(self, content: bytes) -> None:
        self.content, self.downloads, self.shown = content, 0, "https://index"

    def files(self, name: str) -> list[IndexFile]:
        return [IndexFile(f"{name}-1.tar.gz", "1", False, None, name, hashlib.sha256(self.content).hexdigest())]

    def read(self, file: IndexFile) -> bytes:
        self.downloads += 1
        return self.content


def test_a_damaged_archive_is_downloaded_again(matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    index: Any = OneArchive(b"archive")
    row = environment(matrix, "verl-v0.6.0-sglang-cpu-aarch64")
    row.__dict__["lock"] = Lock({}, "", {"verl": hashlib.sha256(b"archive").hexdigest()})

    def archive() -> SourceArchive:
        return obtain(row, "verl", SourceOptions("sdist", index), lambda _: None)

    first = archive()
    assert (archive(), index.downloads) == (first, 1), "it is kept"
    first.archive.write_bytes(b"cut")
    assert (archive().archive.read_bytes(), index.downloads) == (b"archive", 2)


def test_the_files_of_a_tree_are_those_of_its_archive_after_its_steps(tmp_path: Path) -> None:
    texts = {"a-1/pkg/code.py": "one one\none\n", "a-1/old.toml": "old", "a-1/new.toml": "new", "a-1/a.egg-info/x": ""}
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        for name, text in texts.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    source = SourceArchive("a", "sdist", "1", tmp_path / "a.tar.gz", "", 1, ".")
    steps = (
        Step("unpack", {"component": "a"}),
        Step("replace-text", {"file": "pkg/code.py", "text": "one", "by": "two"}),
        Step("replace-file", {"file": "old.toml", "by": "new.toml"}),
    )
    wanted = {"pkg/code.py": "two one\ntwo\n", "old.toml": "new", "new.toml": "new"}
    assert tree_hashes(source, steps) == {
        name: hashlib.sha256(text.encode()).hexdigest() for name, text in wanted.items()
    }


def test_an_archive_is_found_in_the_cache_only_if_it_is_there(mirrored: tuple[Matrix, Path]) -> None:
    matrix, mirror = mirrored
    row = environment(matrix, A2_VLLM)
    assert cached(row, "vllm_ascend", "git") is None and cached(row, "verl", "sdist") is None
    made = obtain(row, "vllm_ascend", origin(str(mirror)), print)
    found = cached(row, "vllm_ascend", "git")
    assert found is not None and found.archive == made.archive
