"""Gets what is built from source onto this machine, once, as an archive that is checked before it is used.

Two ways, both declared by the matrices: the repository at a full commit, or the source archive of the same version
on the package index with the hash that the lock has of it. A build takes archives, so it needs neither git nor the
network for them.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from envbuilder import resources, versions
from envbuilder.errors import EnvbuilderError, NetworkError
from envbuilder.index import Index
from envbuilder.lock import locked_sdists
from envbuilder.matrix import Matrix
from envbuilder.model import Component, Release
from envbuilder.plan import Source
from envbuilder.resolve import Environment
from envbuilder.write import write_bytes

How: TypeAlias = Literal["auto", "git", "sdist"]
_GIT_SECONDS = 300


@dataclass(frozen=True)
class Origin:
    """Where sources come from: the way wanted, and a mirror of the repositories (a folder, or an address prefix)."""

    how: How
    index: Index
    git_mirror: str | None = None


def obtain(matrix: Matrix, environment: Environment, name: str, origin: Origin, talk: Callable[[str], None]) -> Source:
    """The archive of one component, from the cache or from where it comes."""
    component = matrix.components[name]
    release = next(item for item in component.releases if versions.same(item.version, environment.pins[name].version))
    trouble: EnvbuilderError | None = None
    if origin.how != "sdist":
        try:
            return _from_git(component, release, origin.git_mirror, talk)
        except NetworkError as error:
            if origin.how == "git":
                raise
            trouble = error
    hashes = locked_sdists(matrix.lock_text(environment.id) or "")
    if name not in hashes:
        reason = f"{trouble.message}, and " if trouble else ""
        raise NetworkError(
            f"{reason}the package index has no source archive of {component.title} {release.version} to fall back to",
            hint="give --git-mirror a mirror of its repository",
        )
    return _from_index(component, release, hashes[name], origin.index, talk)


def _from_git(component: Component, release: Release, mirror: str | None, talk: Callable[[str], None]) -> Source:
    assert component.repository is not None and release.commit is not None  # noqa: S101, PT018  the plan has asked
    archive = _cache() / f"{component.name}-{release.commit}.tar.gz"
    if not archive.is_file():
        talk(f"fetching {component.title} {release.version} at {release.commit[:12]}")
        place = _mirrored(component.repository, mirror)
        write_bytes(archive, _archive_of(place, release.commit, component.title))
    return Source(component.name, "git", release.commit, archive, strip=0, into=".")


def _mirrored(repository: str, mirror: str | None) -> str:
    if mirror is None:
        return repository
    path = urlsplit(repository).path.strip("/")
    folder = Path(mirror)
    if not folder.is_dir():
        return f"{mirror.rstrip('/')}/{path}"
    names = (path, path.removesuffix(".git"), Path(path).name, Path(path).stem)
    found = next((folder / name for name in names if (folder / name).is_dir()), None)
    if found is None:
        raise NetworkError(
            f"the git mirror {mirror} has no {path}", hint=f"put a bare repository at {folder / Path(path).name}"
        )
    return str(found)


def _archive_of(place: str, commit: str, title: str) -> bytes:
    """The files of one commit, packed so that the same commit gives the same bytes."""
    if Path(place).is_dir():
        packed = _git(["--git-dir", place, "archive", "--format=tar", commit], title)
    else:
        with tempfile.TemporaryDirectory(prefix="envbuilder-git-") as folder:
            _git(["init", "--quiet", folder], title)
            _git(["-C", folder, "fetch", "--quiet", "--depth", "1", place, commit], title)
            packed = _git(["-C", folder, "archive", "--format=tar", "FETCH_HEAD"], title)
    return gzip.compress(packed, compresslevel=6, mtime=0)


def _git(arguments: list[str], title: str) -> bytes:
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    try:
        result = subprocess.run(  # noqa: S603
            ["git", *arguments],  # noqa: S607
            capture_output=True,
            check=False,
            timeout=_GIT_SECONDS,
            env=environment,
        )
    except FileNotFoundError as error:
        raise NetworkError(
            f"git, which fetches {title}, is not installed", hint="install git, or use --source sdist"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise NetworkError(f"fetching {title} took longer than {_GIT_SECONDS} s", hint="use --git-mirror") from error
    if result.returncode != 0:
        said = result.stderr.decode(errors="replace").strip().splitlines() or ["git says nothing"]
        raise NetworkError(
            f"{title} cannot be fetched: {said[-1]}", hint="use --git-mirror, or --source sdist where there is one"
        )
    return result.stdout


def _from_index(
    component: Component, release: Release, sha256: str, index: Index, talk: Callable[[str], None]
) -> Source:
    version = versions.public(release.version)
    archive = _cache() / f"{component.name}-{version}-{sha256[:16]}.tar.gz"
    if not archive.is_file():
        name = component.distribution or component.name
        talk(f"fetching the source archive of {component.title} {version}")
        files = [file for file in index.files(name) if file.sha256 == sha256]
        if not files:
            raise NetworkError(
                f"{index.shown} no longer has the source archive of {component.title} {version} that was locked"
            )
        content = index.read(files[0])
        if hashlib.sha256(content).hexdigest() != sha256:
            raise NetworkError(f"the source archive of {component.title} {version} is not the one that was locked")
        write_bytes(archive, content)
    assert component.sdist is not None  # noqa: S101  the lock has hashes of declared archives only
    return Source(component.name, "sdist", version, archive, strip=1, into=component.sdist.holds)


def _cache() -> Path:
    return resources.cache_folder() / "sources"
