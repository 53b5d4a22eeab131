"""Gets the sources of components onto this machine, as archives that are cached and checked before they are used.

There are two origins, both declared by the matrices: the repository at a full commit, or the source archive of the
same version on the package index, with the hash in the lock. Builds use the archives, so that they need neither git
nor the network for sources.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from envbuilder import paths, versions
from envbuilder.environment import Environment
from envbuilder.environment.packages import unread_submodules
from envbuilder.errors import EnvbuilderError, NetworkError
from envbuilder.files import sha256_of, write_bytes, write_text
from envbuilder.inputs.git_trees import Commits, UnprovenError, prove
from envbuilder.inputs.repositories import Commit, pack
from envbuilder.language import tr
from envbuilder.lock.index import Index
from envbuilder.matrix.model import Component, Release
from envbuilder.plan import SourceArchive

How: TypeAlias = Literal["auto", "git", "sdist"]


@dataclass(frozen=True)
class SourceOptions:
    """Where sources come from. The mirror of the repositories is a folder or the beginning of a URL."""

    how: How
    index: Index
    git_mirror: str | None = None


def obtain_all(
    environment: Environment, names: Iterable[str], options: SourceOptions, say: Callable[[str], None]
) -> dict[str, SourceArchive]:
    return {name: obtain(environment, name, options, say) for name in names}


def obtain(environment: Environment, name: str, options: SourceOptions, say: Callable[[str], None]) -> SourceArchive:
    """Return the archive of one component, from the cache, its repository or the package index."""
    component, release, sha256 = _source(environment, name)
    unread = _unread(environment, component)
    if options.how == "git" and not release.archive:
        return _from_git(component, release, options.git_mirror, say, unread)
    # a cached archive is not fetched again, so that a rebuild needs no network, unless the user names a mirror
    fetched = _git_archive(component, release, unread).is_file()
    downloaded = sha256 is not None and _index_archive(component, release, sha256).is_file()
    if options.how == "auto" and release.commit and (fetched or options.git_mirror or not downloaded):
        try:
            return _from_git(component, release, options.git_mirror, say, unread)
        except NetworkError as error:
            if sha256 is None:
                raise
            say(tr("{reason}; using the source archive of the package index", reason=error.message))
    if sha256 is None:
        named = {"component": component.title, "version": release.version}
        raise NetworkError(
            tr("no source archive of {component} {version} is locked", **named),
            hint=tr("use --source git, or --git-mirror with a mirror of its repository"),
        )
    return _from_index(component, release, sha256, options.index, say)


def is_only_in_git(environment: Environment, name: str, how: How) -> bool:
    """Return whether no package index has the source of a component, or is not to be used."""
    _, release, sha256 = _source(environment, name)
    return sha256 is None or (how == "git" and not release.archive)


def cached(environment: Environment, name: str, kind: Literal["git", "sdist"]) -> SourceArchive | None:
    """Return the archive of a component that an earlier build has left in the cache."""
    component, release, sha256 = _source(environment, name)
    if kind == "git":
        archive = _git_archive(component, release, _unread(environment, component))
    else:
        archive = _index_archive(component, release, sha256 or "")
    if not archive.is_file():
        return None
    found = sha256_of(archive)
    return _described(component, release, kind, archive, found) if kind == "git" or found == sha256 else None


def own_archive(name: str, sha256: str) -> Path:
    """Return the place of a packed source tree that a project has in place of the row's."""
    return paths.cache_folder() / "projects" / f"{name}-{sha256[:16]}.tar.gz"


def obtain_published(
    component: Component, release: Release, options: SourceOptions, say: Callable[[str], None]
) -> SourceArchive:
    """Return the archive of a release for reading, not for a build: it need not be in any lock."""
    if options.how != "sdist" and release.commit:
        try:
            return _from_git(component, release, options.git_mirror, say)
        except NetworkError:
            if options.how == "git" or component.sdist is None:
                raise
    sha256 = options.index.source_archive(component.index_name, release.version) if component.sdist else None
    if sha256 is None:
        named = {"index": options.index.shown, "component": component.title, "version": release.version}
        raise NetworkError(tr("{index} has no source archive of {component} {version}", **named))
    return _from_index(component, release, sha256, options.index, say)


def _source(environment: Environment, name: str) -> tuple[Component, Release, str | None]:
    """Return a component, its release, and the hash of its source archive: that of the lock, or of the release."""
    component, release = environment.component(name), environment.release(name)
    assert component is not None and release is not None  # noqa: S101, PT018  the plan has checked it
    locked = environment.lock.sdists.get(name) if environment.lock else None
    return component, release, locked or release.archive


def _git_archive(component: Component, release: Release, without: Collection[str] = ()) -> Path:
    return _cache() / f"{component.name}-{release.commit}{'-partial' if without else ''}.tar.gz"


def _unread(environment: Environment, component: Component) -> frozenset[str]:
    """Return the folders of submodules that no layer of the environment reads."""
    return frozenset(item.path for item in unread_submodules(environment, component.name))


def _index_archive(component: Component, release: Release, sha256: str) -> Path:
    return _cache() / f"{component.name}-{versions.public(release.version)}-{sha256[:16]}.tar.gz"


def _from_git(
    component: Component, release: Release, mirror: str | None, say: Callable[[str], None],
    unread: Collection[str] = (), *, anew: bool = False,
) -> SourceArchive:  # fmt: skip
    assert release.commit is not None  # noqa: S101  the plan has checked it
    archive = _git_archive(component, release, unread)
    if anew or not archive.is_file():
        named = {"component": component.title, "version": release.version, "commit": release.commit[:12]}
        say(tr("fetching {component} {version} at {commit}", **named))
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            commits = pack(tar, commit_of(component, release), mirror, unread)
        write_text(_commits_file(archive), json.dumps(commits.as_data()))
        # the same commit gives the same bytes
        write_bytes(archive, gzip.compress(packed.getvalue(), compresslevel=6, mtime=0))
    return _described(component, release, "git", archive, sha256_of(archive))


def with_commits(
    environment: Environment, source: SourceArchive, options: SourceOptions, say: Callable[[str], None]
) -> tuple[SourceArchive, Commits]:
    """Return the source of a commit with what proves it; one that an earlier version cached is fetched again."""
    component, release, _ = _source(environment, source.component)
    unread = _unread(environment, component)
    try:
        return source, _kept_commits(source, unread)
    except (OSError, ValueError, UnprovenError):
        source = _from_git(component, release, options.git_mirror, say, unread, anew=True)
        return source, _kept_commits(source, unread)


def _kept_commits(source: SourceArchive, unread: Collection[str]) -> Commits:
    """Return what was kept beside an archive when it was fetched, if it proves the archive."""
    commits = Commits.of(json.loads(_commits_file(source.archive).read_text(encoding="utf-8")))
    prove(source.archive, source.reference, commits, unread)
    return commits


def prove_sources(
    environment: Environment, sources: Mapping[str, SourceArchive], commits: Mapping[str, Commits]
) -> None:
    """Refuse sources that are not those of their commits, and write the others anew from the files of the commit."""
    for name, source in sources.items():
        if source.kind == "git":
            component, _, _ = _source(environment, name)
            known, proven = commits.get(name, Commits({}, {})), source.archive.with_name("proven")
            prove(source.archive, source.reference, known, _unread(environment, component), copy=proven)
            proven.replace(source.archive)


def _commits_file(archive: Path) -> Path:
    return archive.with_name(f"{archive.name}.commits.json")


def commit_of(component: Component, release: Release) -> Commit:
    """Return the commit that a release is built from."""
    assert component.repository is not None  # noqa: S101  the plan has checked it
    return Commit(f"{component.title} {release.version}", component.repository, release.commit)


def _described(
    component: Component, release: Release, kind: Literal["git", "sdist"], archive: Path, sha256: str
) -> SourceArchive:
    """Return the description of an archive of either kind, which follows from the matrices."""
    strip, into = (0, ".") if kind == "git" else (1, component.sdist.holds if component.sdist else "")
    return SourceArchive(component.name, kind, release.reference(kind), archive, sha256, strip, into)


def check_sources(
    environment: Environment, names: Iterable[str], found: Mapping[str, SourceArchive], where: str
) -> None:
    """Refuse archives, such as those of a bundle, that are not those that the row names."""
    for name in names:
        source, (component, release, sha256) = found.get(name), _source(environment, name)
        if source is None or not _is_of(component, release, source, sha256):
            other = f"{source.kind} {source.reference[:40]}" if source else "none"
            named = {"where": where, "component": component.title, "other": other}
            raise EnvbuilderError(
                tr("{where} does not have the source of {component} that the row names, but {other}", **named),
                hint=tr("envbuilder bundle {environment} writes a bundle that has it", environment=environment.id),
            )


def _is_of(component: Component, release: Release, source: SourceArchive, locked: str | None) -> bool:
    same_bytes = source.kind == "git" or source.sha256 == locked
    return same_bytes and source == _described(component, release, source.kind, source.archive, source.sha256)


def _from_index(
    component: Component, release: Release, sha256: str, index: Index, say: Callable[[str], None]
) -> SourceArchive:
    named = {"component": component.title, "version": versions.public(release.version), "index": index.shown}
    archive = _index_archive(component, release, sha256)
    if not archive.is_file() or sha256_of(archive) != sha256:
        say(tr("fetching the source archive of {component} {version}", **named))
        files = [file for file in index.files(component.index_name) if file.sha256 == sha256]
        if not files:
            raise NetworkError(
                tr("{index} no longer has the source archive of {component} {version} that was locked", **named)
            )
        content = index.read(files[0])
        if hashlib.sha256(content).hexdigest() != sha256:
            raise NetworkError(
                tr("the source archive of {component} {version} is not the one that was locked", **named)
            )
        write_bytes(archive, content)
    return _described(component, release, "sdist", archive, sha256)


def _cache() -> Path:
    return paths.cache_folder() / "sources"
