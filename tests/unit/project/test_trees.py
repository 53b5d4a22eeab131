"""The archives of a project's own sources."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from envbuilder.environment.additions import OwnSource
from envbuilder.errors import NetworkError
from envbuilder.project.trees import keep_commit, pack_tree
from tests.helpers.repositories import make_bare, repository


@pytest.fixture
def source(tmp_path: Path) -> OwnSource:
    """A commit whose repository is only in a mirror."""
    bare = tmp_path / "mirror" / "fork.git"
    commit = repository(bare, {"setup.py": "", "bin/go": "#!/bin/sh\n"})
    make_bare(bare)
    return OwnSource("fork", None, "https://git.example/me/fork.git", commit)


def test_a_commit_is_fetched_once(source: OwnSource, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    first = pack_tree(source, str(mirror))
    shutil.rmtree(mirror)
    second = pack_tree(source, str(mirror))
    assert second == first and second.archive.reference == source.commit
    # an archive that was changed is not used
    first.archive.archive.write_bytes(b"other")
    with pytest.raises(NetworkError):
        pack_tree(source, str(mirror))


def test_an_archive_of_a_commit_has_the_same_bytes_everywhere(source: OwnSource, tmp_path: Path) -> None:
    fetched = pack_tree(source, str(tmp_path / "mirror"))
    assert fetched.commits is not None
    copy = tmp_path / "copied.tar.gz"
    copy.write_bytes(fetched.archive.archive.read_bytes())
    assert keep_commit(source, copy, fetched.commits).archive == fetched.archive
