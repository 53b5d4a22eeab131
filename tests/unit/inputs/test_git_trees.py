"""An archive has exactly the files of its commit, or is refused."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from envbuilder.inputs.git_trees import Commits, UnprovenError, prove
from envbuilder.inputs.repositories import Commit, pack
from tests.helpers.repositories import make_bare, repository

Member = tuple[tarfile.TarInfo, bytes]


class Packed(NamedTuple):
    """An archive of a commit, and what proves it."""

    archive: Path
    commit: str
    commits: Commits

    def prove(self, *unread: str, copy: Path | None = None) -> None:
        prove(self.archive, self.commit, self.commits, unread, copy)

    def rewritten(self, change: Callable[[list[Member]], list[Member]]) -> Packed:
        """Write the archive with other members."""
        with tarfile.open(self.archive) as tar:
            members = [(item, tar.extractfile(item).read() if item.isreg() else b"") for item in tar]  # type: ignore[union-attr]
        other = self.archive.with_name("other.tar.gz")
        with tarfile.open(other, "w:gz") as tar:
            for item, content in change(members):
                item.size = len(content)
                tar.addfile(item, io.BytesIO(content))
        return self._replace(archive=other)


def packed(folder: Path, *unread: str, files: dict[str, str] | None = None) -> Packed:
    """Pack a commit with a submodule that has one itself, two programs, a link, and names that git sorts its own way."""
    mirror = folder / "mirror"
    repository(mirror / "deep.git", {"deep.h": "3"})
    repository(mirror / "inner.git", {"inner.h": "2"}, {"deps/deep": (mirror / "deep.git", "../deep.git")})
    contents = files or {"a": "1", "a.b/c": "1", "a-b": "2", "lib/x.py": "import os\n", "lib.py": "", "ä/ö": "x"}
    outer = mirror / "outer.git"
    commit = repository(outer, contents, {"third/inner": (mirror / "inner.git", "https://other.example/inner.git")})
    for place in mirror.iterdir():
        make_bare(place)
    archive = folder / "outer.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        commits = pack(tar, Commit("outer", "https://example.com/outer.git", commit), str(mirror), unread)
    return Packed(archive, commit, commits)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    return packed(tmp_path_factory.mktemp("whole"))


def test_the_files_of_a_commit_are_proven(whole: Packed, tmp_path: Path) -> None:
    copy = tmp_path / "copy.tar.gz"
    whole.prove(copy=copy)
    with tarfile.open(copy) as tar:
        found = {item.name: tar.extractfile(item).read() for item in tar if item.isreg()}  # type: ignore[union-attr]
    assert found["third/inner/deps/deep/deep.h"] == b"3" and found["lib/x.py"] == b"import os\n"
    whole._replace(archive=copy).prove()
    assert Commits.of(whole.commits.as_data()) == whole.commits


def test_a_submodule_that_no_layer_reads_may_be_left_out(tmp_path: Path) -> None:
    small = packed(tmp_path, "third/inner")
    assert small.commits.left_out.keys() == {"third/inner"}
    small.prove("third/inner")
    with pytest.raises(UnprovenError):
        small.prove()


def test_attributes_of_a_repository_change_no_file(tmp_path: Path) -> None:
    """git would leave out a file, write the commit into another, and change the ends of lines."""
    attributes = "secret export-ignore\nversion export-subst\n*.txt eol=crlf\n"
    files = {".gitattributes": attributes, "secret": "1", "version": "$Format:%H$", "x.txt": "a\nb\n"}
    packed(tmp_path, files=files).prove()


def _changed(name: str, content: bytes) -> Callable[[list[Member]], list[Member]]:
    return lambda members: [(item, content if item.name == name else own) for item, own in members]


def _added(name: str, **fields: object) -> Callable[[list[Member]], list[Member]]:
    item = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(item, field, value)
    return lambda members: [*members, (item, b"x" if item.isreg() else b"")]


def _without(name: str) -> Callable[[list[Member]], list[Member]]:
    return lambda members: [item for item in members if item[0].name != name]


def _executable(members: list[Member]) -> list[Member]:
    for item, _ in members:
        item.mode |= 0o111 if item.name == "a" else 0
    return members


FORGED = {
    "a changed file": _changed("lib/x.py", b"import os; os.system('x')\n"),
    "a changed submodule": _changed("third/inner/deps/deep/deep.h", b"4"),
    "a new file": _added("lib/zz.pth"),
    "a new file in a submodule": _added("third/inner/zz.pth"),
    "a second file of one name": _added("lib/x.py"),
    "the same file by another path": _added("lib/./x.py"),
    "a file outside": _added("../x"),
    "an absolute path": _added("/etc/cron.d/x"),
    "a missing file": _without("lib.py"),
    "a missing file of a submodule": _without("third/inner/inner.h"),
    "a program": _executable,
    "a link in place of a file": lambda m: _added("a", type=tarfile.SYMTYPE, linkname="/etc")(_without("a")(m)),
    "a new link": _added("link", type=tarfile.SYMTYPE, linkname="/etc"),
    "a file below a link": _added("a/x"),
    "a hard link": _added("hard", type=tarfile.LNKTYPE, linkname="a"),
    "a device": _added("null", type=tarfile.CHRTYPE),
    "a new folder": _added("empty", type=tarfile.DIRTYPE),
}  # fmt: skip


@pytest.mark.parametrize("how", FORGED)
def test_other_files_are_refused(whole: Packed, how: str, tmp_path: Path) -> None:
    with pytest.raises(UnprovenError, match=r"does not have the files of the commit"):
        whole.rewritten(FORGED[how]).prove(copy=tmp_path / "copy")


def test_other_commits_are_refused(whole: Packed) -> None:
    other = {path: text.replace(b"tree ", b"tree 0")[: len(text)] for path, text in whole.commits.texts.items()}
    for commits in (Commits(other, {}), Commits({}, {}), Commits({".": whole.commits.texts["."]}, {})):
        with pytest.raises(UnprovenError):
            whole._replace(commits=commits).prove()
    with pytest.raises(UnprovenError):
        whole._replace(commit="1" * 40).prove()
    changed = whole.rewritten(_changed("third/inner/inner.h", b"5"))
    left_out = changed._replace(commits=Commits(whole.commits.texts, {"third/inner": "1" * 40}))
    with pytest.raises(UnprovenError):
        left_out.prove("third/inner")


def test_an_archive_cannot_exhaust_the_reader(whole: Packed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes announce terabytes: as a file, as holes, as a header, or as many files."""

    def written(name: str, *headers: bytes) -> Packed:
        file = tmp_path / name
        file.write_bytes(gzip.compress(b"".join(headers) + bytes(2**20)))
        return whole._replace(archive=file)

    monkeypatch.setattr("envbuilder.inputs.git_trees._MOST_FILES", 100)
    large = tarfile.TarInfo("large")
    large.size = 2**42
    pax = tarfile.TarInfo("pax")
    pax.type, pax.size = tarfile.XHDTYPE, 2**42
    sparse = tarfile.TarInfo("sparse")
    sparse.type = tarfile.GNUTYPE_SPARSE
    holes = bytearray(sparse.tobuf(tarfile.GNU_FORMAT))
    holes[483:495] = b"%011o " % 2**32
    holes[148:156] = b"%06o\0 " % (sum(holes[:148]) + sum(holes[156:512]) + 8 * 32)
    for item in (
        written("file", large.tobuf(tarfile.GNU_FORMAT)),
        written("header", pax.tobuf(tarfile.GNU_FORMAT)),
        written("holes", bytes(holes)),
        written("many", *(tarfile.TarInfo(str(number)).tobuf() for number in range(101))),
    ):
        with pytest.raises(UnprovenError):
            item.prove(copy=tmp_path / "copy")
        assert (tmp_path / "copy").stat().st_size < 2**20
