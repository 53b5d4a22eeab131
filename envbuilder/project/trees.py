"""Packs a project's own source trees, and reads what they require."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path
from typing import NamedTuple

from envbuilder.environment import Environment
from envbuilder.environment.additions import OwnSource
from envbuilder.errors import EnvbuilderError, Where
from envbuilder.files import workspace, write_bytes
from envbuilder.inputs.repositories import Commit, pack
from envbuilder.inputs.source_archives import own_archive
from envbuilder.language import tr
from envbuilder.lock.index import Index, uv_program
from envbuilder.plan import SourceArchive
from envbuilder.process import run, undisturbed

# what no build needs, where git does not say which files belong to a folder
_IGNORED = frozenset((".git", ".hg", ".venv", "venv", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"))
_LARGEST = 2 * 10**9
# lines of a build that failed
_SHOWN = 20
# the settings of a foreign repository may name programs
_GIT = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.quotePath=false"]


class OwnTree(NamedTuple):
    """A source tree, and its archive."""

    source: OwnSource
    archive: SourceArchive


class Metadata(NamedTuple):
    """What a source tree says of itself when it is built."""

    version: str
    requires: tuple[str, ...]


class ForkError(EnvbuilderError):
    """A project's own source tree cannot be packed or built."""

    exit_code = 3


def pack_tree(source: OwnSource, git_mirror: str | None, where: Where | None = None) -> OwnTree:
    """Pack a source tree; the same files give the same bytes."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        if source.folder is None:
            pack(tar, Commit(source.component, source.repository, source.commit), git_mirror)
            revision = source.commit
        else:
            _add_folder(tar, source.folder, where)
            revision = _revision(source.folder)
    content = gzip.compress(packed.getvalue(), compresslevel=1, mtime=0)
    sha256 = hashlib.sha256(content).hexdigest()
    place = own_archive(source.component, sha256)
    write_bytes(place, content)
    archive = SourceArchive(source.component, "git", revision, place, sha256, 0, ".")
    return OwnTree(source, archive)


def own_archives(environment: Environment, git_mirror: str | None) -> dict[str, SourceArchive]:
    """Pack the source trees that a project has in place of the row's."""
    own = environment.additions.sources if environment.additions else {}
    return {name: pack_tree(source, git_mirror).archive for name, source in own.items()}


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
