"""Packs a project's own source trees, and reads what they require."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from email.parser import HeaderParser
from pathlib import Path
from typing import NamedTuple

from envbuilder.environment import Environment
from envbuilder.environment.additions import OwnSource
from envbuilder.errors import EnvbuilderError, Where
from envbuilder.files import digest_of, read_regular, workspace, write_bytes, write_text
from envbuilder.inputs.git_trees import Commits, UnprovenError, prove
from envbuilder.inputs.repositories import Commit, pack
from envbuilder.inputs.source_archives import own_archive
from envbuilder.language import tr
from envbuilder.lock.index import Index, uv_program
from envbuilder.plan import SourceArchive
from envbuilder.process import run, undisturbed

# what no build needs, where git does not say which files belong to a folder
_IGNORED = frozenset((".git", ".hg", ".venv", "venv", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"))
_LARGEST = 2 * 10**9
# where a Python project says what it requires, beside requirements*.txt
_STATING = ("pyproject.toml", "setup.cfg", "setup.py")
_LONGEST = 10**6
# lines of a build that failed
_SHOWN = 20
# the settings of a foreign repository may name programs
_GIT = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.quotePath=false"]


class OwnTree(NamedTuple):
    """A source tree, and its archive."""

    source: OwnSource
    archive: SourceArchive
    # what proves a commit; nothing proves a folder
    commits: Commits | None = None


class Metadata(NamedTuple):
    """What a source tree says of itself when it is built."""

    version: str
    requires: tuple[str, ...]


class ForkError(EnvbuilderError):
    """A project's own source tree cannot be packed or built."""

    exit_code = 3


def pack_tree(source: OwnSource, git_mirror: str | None, where: Where | None = None) -> OwnTree:
    """Pack a source tree; the same files give the same bytes. A commit is fetched once."""
    if source.folder is None:
        return _kept_commit(source) or _fetch_commit(source, git_mirror)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        _add_folder(tar, source.folder, where)
    content = gzip.compress(packed.getvalue(), compresslevel=1, mtime=0)
    return OwnTree(source, _keep(source, content, _revision(source.folder)))


def own_archives(
    environment: Environment, git_mirror: str | None, say: Callable[[str], None]
) -> dict[str, SourceArchive]:
    """Pack the source trees that a project has in place of the row's."""
    found = {}
    for name, source in environment.additions.sources.items() if environment.additions else ():
        say(tr("packing {source}", source=source.shown))
        found[name] = pack_tree(source, git_mirror).archive
    return found


def keep_commit(source: OwnSource, archive: Path, commits: Commits) -> OwnTree:
    """Put the archive of a commit into the cache, written anew from files that are proven to be those of the commit."""
    proven = archive.with_name("proven")
    prove(archive, source.commit, commits, (), copy=proven)
    kept = _keep(source, proven.read_bytes(), source.commit)
    write_text(_commit_file(source), json.dumps({"sha256": kept.sha256, "commits": commits.as_data()}))
    return OwnTree(source, kept, commits)


def _keep(source: OwnSource, content: bytes, revision: str) -> SourceArchive:
    sha256 = hashlib.sha256(content).hexdigest()
    place = own_archive(source.component, sha256)
    write_bytes(place, content)
    return SourceArchive(source.component, "git", revision, place, sha256, 0, ".")


def _commit_file(source: OwnSource) -> Path:
    return own_archive(source.component, "").with_name(f"{source.component}-{source.commit}.json")


def _kept_commit(source: OwnSource) -> OwnTree | None:
    """Return what is kept of a commit, if it still proves the archive."""
    try:
        known = json.loads(_commit_file(source).read_text(encoding="utf-8"))
        commits, sha256 = Commits.of(known["commits"]), str(known["sha256"])
        place = own_archive(source.component, sha256)
        prove(place, source.commit, commits, ())
    except (OSError, ValueError, LookupError, TypeError, UnprovenError):
        return None
    return OwnTree(source, SourceArchive(source.component, "git", source.commit, place, sha256, 0, "."), commits)


def _fetch_commit(source: OwnSource, git_mirror: str | None) -> OwnTree:
    with workspace() as folder:
        archive = folder / "fetched.tar.gz"
        with gzip.open(archive, "wb", 1) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
            commits = pack(tar, Commit(source.component, source.repository, source.commit), git_mirror)
        return keep_commit(source, archive, commits)


def stated_requirements(source: OwnSource) -> dict[str, str]:
    """Return the digests of the files of a folder that may say what it requires; a commit does not change."""
    if source.folder is None:
        return {}
    files = [source.folder / name for name in _STATING] + sorted(source.folder.glob("requirements*.txt"))
    return {file.name: digest_of(read_regular(file, _LONGEST)) for file in files if file.is_file()}


def _add_folder(tar: tarfile.TarFile, folder: Path, where: Where | None) -> None:
    size = 0
    for path in sorted(_files(folder)):
        place = folder / path
        entry = tar.gettarinfo(place, arcname=path)
        size += entry.size
        if size > _LARGEST:
            message = tr("{folder} has more than {size} GB of files", folder=folder, size=_LARGEST // 10**9)
            raise ForkError(message, hint=tr("list data and checkpoints in .gitignore"), where=where)
        entry.uid = entry.gid = entry.mtime = 0
        entry.uname = entry.gname = ""
        entry.mode = 0o755 if entry.mode & 0o100 else 0o644
        if entry.isreg():
            with place.open("rb") as file:
                tar.addfile(entry, file)
        elif entry.issym():
            tar.addfile(entry)


def _files(folder: Path) -> Iterator[str]:
    """Yield the files of a folder: those that git knows or does not ignore, or else all that a build may need."""
    listed = run([*_GIT, "-C", str(folder), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "."])
    if listed.ok:
        for name in dict.fromkeys(listed.output.decode(errors="surrogateescape").rstrip("\0").split("\0")):
            if (folder / name).is_symlink() or (folder / name).is_file():
                yield name
        return
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _IGNORED and not name.endswith(".egg-info"))
        for name in names:
            if not name.endswith(".pyc"):
                yield str((Path(root) / name).relative_to(folder))


def _revision(folder: Path) -> str:
    """Return the commit of a folder, with `-dirty` where files differ from it; `unversioned` without git."""
    head = run([*_GIT, "-C", str(folder), "rev-parse", "HEAD"])
    if not head.ok:
        return "unversioned"
    changed = run([*_GIT, "-C", str(folder), "status", "--porcelain", "--untracked-files=normal", "."])
    return head.text.strip() + ("-dirty" if changed.text.strip() else "")


def metadata_of(tree: OwnTree, index: Index, where: Where) -> Metadata:
    """Return the metadata of a source tree. This runs its build, in a copy of the tree."""
    with workspace() as folder:
        copy, built = folder / "tree", folder / "built"
        copy.mkdir()
        run(["tar", "--extract", "--gzip", "--file", str(tree.archive.archive), "--directory", str(copy)])
        variables = {**undisturbed(), "UV_DEFAULT_INDEX": index.url, "XDG_CONFIG_HOME": str(folder)}
        if index.ca_bundle:
            variables["SSL_CERT_FILE"] = str(index.ca_bundle)
        command = [uv_program(), "build", "--wheel", "--python", sys.executable, "--out-dir", str(built), str(copy)]
        result = run(command, cwd=folder, variables=variables)
        if not result.ok:
            lines = [line for line in result.error_text.splitlines() if line.strip()][-_SHOWN:]
            message = tr("{source} cannot be built:", source=tree.source.shown)
            raise ForkError("\n".join([message, *(f"  | {line.rstrip()}" for line in lines)]), where=where)
        (wheel,) = built.glob("*.whl")
        return _read_metadata(wheel)


def _read_metadata(wheel: Path) -> Metadata:
    with zipfile.ZipFile(wheel) as file:
        name = next(item for item in file.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", item))
        headers = HeaderParser().parsestr(file.read(name).decode())
    requires = tuple(str(item) for item in headers.get_all("Requires-Dist", []))
    return Metadata(str(headers["Version"]), tuple(item for item in requires if "extra ==" not in item))
