"""Finds out which sources cannot be had, before anything is downloaded."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from envbuilder.environment import Environment
from envbuilder.environment.packages import built_components, submodules_of, unread_submodules
from envbuilder.errors import NetworkError
from envbuilder.inputs.repositories import Commit, submodule_title, unavailable
from envbuilder.inputs.source_archives import How, SourceOptions, cached, commit_of, is_only_in_git
from envbuilder.language import counted, tr
from envbuilder.upstream.git import bare_name


class GitSource(NamedTuple):
    """A source that only its repository has: its commit, and its submodules that are read and that are not."""

    name: str
    commit: Commit
    submodules: tuple[Commit, ...]
    unread: frozenset[str]


def git_sources(environment: Environment, how: How) -> list[GitSource]:
    """Return the sources that a build has to take from repositories."""
    names = built_components(environment)
    return [_git_source(environment, name) for name in names if is_only_in_git(environment, name, how)]


def require_sources(environment: Environment, options: SourceOptions, instead: str | None = None) -> None:
    """Raise one error that names every source that cannot be had; `instead` is one more hint."""
    sources = git_sources(environment, options.how)
    if options.how == "sdist" and sources:
        names = ", ".join(item.commit.title for item in sources)
        raise NetworkError(
            tr("no source archive is locked of {names}", names=names),
            hint=tr("use --source git, or --git-mirror with a mirror of its repository"),
        )
    sources = [item for item in sources if not cached(environment, item.name, "git")]
    with ThreadPoolExecutor() as pool:
        found = list(pool.map(lambda item: list(_unavailable(item, options.git_mirror)), sources))
    missing = dict(item for of_source in found for item in of_source)
    if not missing:
        return
    lines = (tr("  {title}, {repository}: {reason}", **commit._asdict(), reason=why) for commit, why in missing.items())
    wanted = [commit for item in sources for commit in (item.commit, *item.submodules)]
    names = ", ".join(dict.fromkeys(bare_name(commit.repository) for commit in (*wanted, *missing)))
    hint = tr(
        "run `git clone --bare` for each where there is a network, and give their folder as --git-mirror: it must hold "
        "{names}",
        names=names,
    )
    number = counted(len(missing), "source")
    message = (
        tr("{sources} cannot be fetched:", sources=number)
        if options.how == "git"
        else tr("{sources} cannot be fetched, without an alternative in a package index:", sources=number)
    )
    raise NetworkError("\n".join([message, *lines]), hint=tr("; ").join(filter(None, (hint, instead))))


def _git_source(environment: Environment, name: str) -> GitSource:
    component, release = environment.component(name), environment.release(name)
    assert component is not None and release is not None  # noqa: S101, PT018  the plan has checked it
    commit = commit_of(component, release)
    unread = frozenset(item.path for item in unread_submodules(environment, name))
    read = (item for item in submodules_of(environment, name) if item.path not in unread)
    submodules = (Commit(submodule_title(item.path, commit.title), item.repository, None) for item in read)
    return GitSource(name, commit, tuple(submodules), unread)


def _unavailable(source: GitSource, mirror: str | None) -> Iterator[tuple[Commit, str]]:
    own = list(unavailable(source.commit, mirror, source.unread))
    yield from own
    # a repository that is at hand names its submodules itself
    found = {commit.repository for commit, _ in own}
    for commit in source.submodules:
        if commit.repository not in found:
            yield from unavailable(commit, mirror)
