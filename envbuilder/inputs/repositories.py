"""Reads commits of git repositories, with their submodules, from their hosts or from a mirror."""

from __future__ import annotations

import io
import re
import shutil
import tarfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urljoin

from envbuilder.errors import NetworkError
from envbuilder.files import workspace, write_text
from envbuilder.inputs.git_trees import ROOT, Commits
from envbuilder.language import counted, tr
from envbuilder.process import ProgramError, run, undisturbed
from envbuilder.upstream.git import LOCAL, MirrorError, Remote, mirrored, remote

_SAME_BYTES = ("core.autocrlf=false", "core.eol=lf", "core.attributesFile=/dev/null", "tar.umask=0002")
# no file is left out or changed, as those of a checkout are not
_AS_COMMITTED = "* -export-ignore -export-subst -text -eol -ident -filter -working-tree-encoding\n"
_GIT_SECONDS = 300
# for a question to a host, without a download
_PROBE_SECONDS = 30


class Commit(NamedTuple):
    """A commit of a repository; None as its hash is any. The title names it in messages."""

    title: str
    repository: str
    hash: str | None


class PinnedSubmodule(NamedTuple):
    """The commit of a submodule, and its folder in the tree of the repository."""

    path: str
    commit: Commit


class UnfetchedError(NetworkError):
    """A commit cannot be fetched."""

    def __init__(self, commit: Commit, reason: str, hint: str) -> None:
        named = {"title": commit.title, "repository": commit.repository}
        super().__init__(tr("{title} cannot be fetched from {repository}: {reason}", **named, reason=reason), hint=hint)
        self.reason = reason


def pack(
    tar: tarfile.TarFile, commit: Commit, mirror: str | None, unread: Collection[str] = (), at: str = ROOT
) -> Commits:
    """Add the files of a commit to an archive, and those of its submodules whose folders are not `unread`.

    Return what proves later that they are the files of this commit.
    """
    with workspace() as folder:
        _fetch(folder, commit, mirror)
        place, prefix = str(folder), [] if at == ROOT else [f"--prefix={at}/"]
        packed = _git(["--git-dir", place, "archive", "--format=tar", *prefix, str(commit.hash)], commit)
        with tarfile.open(fileobj=io.BytesIO(packed)) as files:
            for member in files:
                tar.addfile(member, files.extractfile(member) if member.isfile() else None)
        texts = {at: _git(["--git-dir", place, "cat-file", "commit", str(commit.hash)], commit)}
        modules = list(_submodules(place, commit))
    left_out = {item.path: str(item.commit.hash) for item in modules if item.path in unread}
    for module in modules:
        if module.path not in unread:
            own = pack(tar, module.commit, mirror, at=module.path if at == ROOT else f"{at}/{module.path}")
            texts |= own.texts
    return Commits(texts, left_out)


def _fetch(folder: Path, commit: Commit, mirror: str | None) -> None:
    """Make a repository that has a commit, and gives its files as they are, whatever attributes they have."""
    place = _mirrored(commit, mirror)
    _git(["init", "--quiet", "--bare", str(folder)], commit)
    if Path(place).is_dir():
        _require(place, commit)
        write_text(folder / "objects" / "info" / "alternates", f"{Path(place).resolve()}/objects\n")
    else:
        assert commit.hash is not None  # noqa: S101
        host = remote(place)
        fetch = ["--git-dir", str(folder), "fetch", "--quiet", "--depth", "1", host.address, commit.hash]
        _git(fetch, commit, host=host)
    write_text(folder / "info" / "attributes", _AS_COMMITTED)


def unavailable(
    commit: Commit, mirror: str | None, unread: Collection[str] = ()
) -> Iterator[tuple[Commit, str]]:  # fmt: skip
    """Yield this commit or those of its submodules if they cannot be had, with the reason; nothing is downloaded.

    Submodules are known where the mirror is a folder of this machine.
    """
    try:
        place = _mirrored(commit, mirror)
        if not Path(place).is_dir():
            host = remote(place)
            _git(["ls-remote", "--quiet", host.address, "HEAD"], commit, _PROBE_SECONDS, host)
            return
        if commit.hash is None:
            return
        _require(place, commit)
        modules = [item for item in _submodules(place, commit) if item.path not in unread]
    except UnfetchedError as error:
        yield commit, error.reason
        return
    for module in modules:
        yield from unavailable(module.commit, mirror)


def _mirrored(commit: Commit, mirror: str | None) -> str:
    """Return the address of the repository of a commit, or its folder in a mirror."""
    try:
        return mirrored(commit.repository, mirror)
    except MirrorError as error:
        raise UnfetchedError(commit, error.message, error.hint or "") from error


def _require(place: str, commit: Commit) -> None:
    """Refuse a local repository that lacks a commit, or files of it as a partial clone does."""
    assert commit.hash is not None  # noqa: S101
    hint = tr("update it where there is a network: git -C {place} fetch", place=place)
    try:
        _git(["--git-dir", place, "cat-file", "-e", f"{commit.hash}^{{tree}}"], commit)
    except UnfetchedError as error:
        reason = tr("{place} does not have the commit {commit}", place=place, commit=commit.hash[:12])
        raise UnfetchedError(commit, reason, hint) from error
    listed = _git(["--git-dir", place, "rev-list", "--objects", "--missing=print", "--no-walk", commit.hash], commit)
    lacking = set(re.findall(r"^\?([0-9a-f]{40})", listed.decode(errors="replace"), re.M))
    if lacking:
        tree = _git(["--git-dir", place, "ls-tree", "-r", "-t", commit.hash], commit).decode(errors="replace")
        paths = (path for found, path in re.findall(r"^\d+ \w+ ([0-9a-f]{40})\t(.+)$", tree, re.M) if found in lacking)
        reason = tr(
            "{place} lacks {files} of the commit {commit}, such as {path}",
            place=place,
            files=counted(len(lacking), "file"),
            commit=commit.hash[:12],
            path=next(paths, "?"),
        )
        raise UnfetchedError(commit, reason, hint)


def _submodules(place: str, commit: Commit) -> Iterator[PinnedSubmodule]:
    tree = _git(["--git-dir", place, "ls-tree", "-r", str(commit.hash)], commit).decode()
    links = re.findall(r"^160000 commit ([0-9a-f]{40})\t(.+)$", tree, re.M)
    if not links:
        return
    shown = ["--git-dir", place, "config", "--blob", f"{commit.hash}:.gitmodules", "--get-regexp", r"\.(path|url)$"]
    settings = dict(line.split(" ", 1) for line in _git(shown, commit).decode().splitlines())
    for pinned, path in links:
        name = next(key.removesuffix(".path") for key, value in settings.items() if value == path)
        url = settings[f"{name}.url"]
        url = urljoin(f"{commit.repository}/", url) if url.startswith(".") else url
        yield PinnedSubmodule(path, Commit(submodule_title(path, commit.title), url, pinned))


def submodule_title(path: str, module: str) -> str:
    return tr("submodule {path} of {module}", path=path, module=module)


def _git(
    arguments: list[str], commit: Commit, seconds: int = _GIT_SECONDS, host: Remote = LOCAL
) -> bytes:  # fmt: skip
    if shutil.which("git") is None:
        raise NetworkError(
            tr("git, which fetches {title}, is not installed", title=commit.title),
            hint=tr("install git, or use --source sdist"),
        )
    variables = {**undisturbed(), "GIT_TERMINAL_PROMPT": "0", **host.variables}
    # the same bytes on every machine
    settings = [word for item in (*_SAME_BYTES, *host.settings) for word in ("-c", item)]
    try:
        result = run(["git", *settings, *arguments], variables=variables, seconds=seconds)
    except ProgramError as error:
        raise UnfetchedError(
            commit, tr("it took longer than {seconds} s", seconds=seconds), tr("use --git-mirror")
        ) from error
    if not result.ok:
        hint = tr("use --git-mirror, or --source sdist if the lock has a source archive")
        # messages name the address themselves
        reason = re.sub(r"^fatal: (unable to access '[^']*': )?", "", result.last_words)
        raise UnfetchedError(commit, reason, hint)
    return result.output
