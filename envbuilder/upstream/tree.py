"""The files of a release of a project: of a commit of its repository, or of its source archive."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from envbuilder import versions
from envbuilder.errors import NetworkError, NoMatchError
from envbuilder.files import locked
from envbuilder.http import without_credentials
from envbuilder.language import tr
from envbuilder.upstream.git import LOCAL, bare_name, git, mirrored, remote

_CLONE_SECONDS = 1800


class Tree(Protocol):
    """The files of one release."""

    # as sources in the matrices name it: OWNER/NAME@COMMIT
    label: str
    commit: str | None

    @property
    def date(self) -> str: ...
    @property
    def names(self) -> Iterable[str]: ...
    def read(self, path: str) -> str | None: ...


class Repository:
    """A repository in a mirror of this machine, or a copy of one at a host."""

    def __init__(self, address: str, mirror: str | None, kept: Path) -> None:
        self.name = urlsplit(address).path.strip("/").removesuffix(".git")
        place = mirrored(address, mirror)
        self._remote = LOCAL
        self._folder = Path(place)
        if not self._folder.is_dir():
            self._remote = remote(place)
            self._folder = self._copied(kept, without_credentials(place))

    def _copied(self, kept: Path, shown: str) -> Path:
        """Return a copy without the contents of files, which git fetches when they are read."""
        owner = self.name.rpartition("/")[0].replace("/", "+")
        folder = kept / f"{owner}+{bare_name(self.name)}"
        kept.mkdir(parents=True, exist_ok=True)
        with locked(folder.with_suffix(".lock")):
            if (folder / "complete").exists():
                done = self._git(
                    folder, "fetch", "--quiet", "--prune", "--tags", "origin", "+refs/heads/*:refs/heads/*"
                )
            else:
                words = ["clone", "--quiet", "--bare", "--filter=blob:none", self._remote.address, str(folder)]
                done = git(words, self._remote, seconds=_CLONE_SECONDS)
                if done is not None:
                    (folder / "complete").touch()
        if done is None:
            raise NetworkError(tr("{repository} cannot be read", repository=shown), hint=tr("use --git-mirror"))
        return folder

    def _git(self, folder: Path, *arguments: str) -> str | None:
        return git(["--git-dir", str(folder), *arguments], self._remote, seconds=_CLONE_SECONDS)

    def ask(self, *arguments: str) -> str | None:
        """Return what git says about the repository without its last line break, or None if it fails."""
        answer = self._git(self._folder, *arguments)
        return None if answer is None else answer.rstrip("\n")

    @lru_cache(maxsize=256)  # noqa: B019  a repository lives as long as the command
    def commit(self, revision: str) -> str | None:
        return self.ask("rev-parse", "--quiet", "--verify", f"{revision}^{{commit}}")

    @lru_cache(maxsize=256)  # noqa: B019
    def tree(self, revision: str) -> GitTree | None:
        """Return the files of a commit, tag or branch; None if the repository has none of that name."""
        found = self.commit(revision)
        return GitTree(self, found) if found else None

    @cached_property
    def references(self) -> frozenset[str]:
        """Return the full names of its tags and branches."""
        return frozenset((self.ask("for-each-ref", "--format=%(refname)", "refs/tags", "refs/heads") or "").split())

    def branch_at(self, reference: str, date: str) -> str | None:
        """Return the commit that a branch had at the end of a day; today's, if the branch began later."""
        found = self.ask("rev-list", "-1", f"--before={date}T23:59:59", reference)
        return found or self.commit(reference)

    def tags_of(self, commit: str) -> list[str]:
        return (self.ask("tag", "--points-at", commit) or "").split()


class GitTree:
    """The files of one commit of a repository."""

    def __init__(self, repository: Repository, commit: str) -> None:
        self._repository = repository
        self.commit: str | None = commit
        self.label = f"{repository.name}@{commit[:9]}"

    @cached_property
    def date(self) -> str:
        return (self._repository.ask("log", "-1", "--format=%cI", str(self.commit)) or "")[:10]

    @cached_property
    def names(self) -> frozenset[str]:
        listed = self._repository.ask("ls-tree", "-rz", "--name-only", str(self.commit)) or ""
        return frozenset(listed.split("\0"))

    @lru_cache(maxsize=256)  # noqa: B019
    def read(self, path: str) -> str | None:
        return self._repository.ask("show", f"{self.commit}:{path}") if path in self.names else None


class ArchiveTree:
    """The files of a source archive, for a release whose commit is not published."""

    commit: str | None = None

    def __init__(self, label: str, date: str, content: bytes) -> None:
        self.label, self._date = label, date
        try:
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                self._files = {
                    member.name.partition("/")[2]: found.read().decode(errors="replace")
                    for member in archive
                    if member.isfile() and (found := archive.extractfile(member))
                }
        except (tarfile.TarError, EOFError, OSError) as error:
            raise NetworkError(tr("{file} is not a source archive: {reason}", file=label, reason=error)) from error

    @property
    def date(self) -> str:
        return self._date

    @property
    def names(self) -> Iterable[str]:
        return self._files.keys()

    def read(self, path: str) -> str | None:
        return self._files.get(path)


class FoundFile(NamedTuple):
    """A file of a release."""

    tree: Tree
    path: str
    text: str

    def at(self, line: int) -> str:
        """Return the place of a line, as comments in the matrices name it."""
        return f"{self.source}#L{line}"

    @property
    def source(self) -> str:
        return f"{self.tree.label}:{self.path}"


def find(tree: Tree, patterns: Iterable[str]) -> FoundFile | None:
    """Return the first of several files that a tree has; of those that a pattern matches, the newest version."""
    for pattern in patterns:
        matching = [name for name in tree.names if _matches(name, pattern)]
        if matching:
            path = max(matching, key=versions.key)
            return FoundFile(tree, path, tree.read(path) or "")
    return None


def _matches(name: str, pattern: str) -> bool:
    if "*" not in pattern:
        return name == pattern
    # a star is a part of a name without the mark that separates parts, so that `_*_` is one part
    whole = re.sub(r"\\\*", r"[^/_]+", re.escape(pattern))
    return re.fullmatch(whole, name) is not None


def unknown_release(title: str, tag: str, near: Iterable[str]) -> NoMatchError:
    """Return the error of a release that a repository does not have."""
    shown = ", ".join(sorted(near, key=versions.key)[-5:]) or tr("nothing")
    return NoMatchError(
        tr("the repository of {title} has no release {tag}", title=title, tag=tag),
        hint=tr("its newest tags: {tags}", tags=shown),
    )
