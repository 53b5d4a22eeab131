"""Checks files that no checksum describes: links, settings that a package adds to, and what programs write."""

from __future__ import annotations

import marshal
import os
import re
import stat
from collections.abc import Callable, Mapping
from importlib.util import MAGIC_NUMBER
from pathlib import Path, PurePosixPath
from types import CodeType
from typing import TYPE_CHECKING

from installed import normal

if TYPE_CHECKING:
    from owners import Owner, Roots

_METADATA = {
    "PKG-INFO", "SOURCES.txt", "dependency_links.txt", "entry_points.txt", "namespace_packages.txt", "not-zip-safe",
    "requires.txt", "top_level.txt", "zip-safe",
}  # fmt: skip
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")
_CERTIFICATES = "/usr/share/ca-certificates/"
# an account of a program: no password, no shell, and not the number of root or of a person
_ACCOUNTS = {
    "passwd": r"[\w-]+:[x*!]:[1-9]\d{0,2}:[1-9]\d*:[^:]*:[^:]*:\S*/(?:nologin|false)",
    "group": r"[\w-]+:[x*!]?:[1-9]\d{0,2}:[\w,-]*",
    "shadow": r"[\w-]+:[*!]+:[\d:]*",
    "gshadow": r"[\w-]+:[*!]*::[\w,-]*",
}
# what git writes by itself; other settings can name programs
_GIT_SETTING = re.compile(
    r"\s*(\[(core|submodule \"[\w./-]+\"|remote \"origin\")\]|(repositoryformatversion|filemode|bare"
    r"|logallrefupdates|active|worktree|fetch|url) = .*|)"
)
_OF_CODE = (
    "co_name", "co_argcount", "co_posonlyargcount", "co_kwonlyargcount", "co_flags", "co_code", "co_names",
    "co_varnames", "co_freevars", "co_cellvars", "co_stacksize", "co_firstlineno",
)  # fmt: skip


class CheckedFile:
    """A file to be checked, and what is known of the others."""

    def __init__(self, path: str, status: os.stat_result, roots: Roots, origins: Mapping[str, str], value: str) -> None:
        self.path, self.roots, self.origins, self.value = path, roots, origins, value
        self.is_plain = stat.S_ISREG(status.st_mode)
        self.is_program = bool(status.st_mode & 0o111)
        self.is_link = stat.S_ISLNK(status.st_mode)
        self.size = status.st_size

    @property
    def content(self) -> bytes:
        return bytes(self.roots.read(self.path))

    @property
    def of_base(self) -> bytes:
        return bytes(self.roots.read(self.path, of_base=True))


def follows(
    owner: Owner, path: str, status: os.stat_result, roots: Roots, origins: Mapping[str, str]
) -> bool:  # fmt: skip
    return _RULES[owner.rule](CheckedFile(path, status, roots, origins, owner.value))


def _link(file: CheckedFile) -> bool:
    """Check that a link leads to a folder, to a file that is accounted for, or nowhere."""
    target = file.roots.real(file.path)
    return file.is_link and (target in file.origins or not Path(file.roots.root + target).is_file())


def _alternative(file: CheckedFile) -> bool:
    """Check that a link leads to the choice among programs of the same name that packages have made."""
    return _link(file) and str(Path(file.roots.root + file.path).readlink()).startswith("/etc/alternatives/")


def _fewer_lines(file: CheckedFile) -> bool:
    """Check that a list is that of the base image, perhaps without some of its lines."""
    return _data(file) and set(file.content.splitlines()) <= set(file.of_base.splitlines())


def _link_within(file: CheckedFile) -> bool:
    return _link(file) and file.roots.real(file.path).startswith(f"{file.value}/")


def _data(file: CheckedFile) -> bool:
    return file.is_plain and not file.is_program


def _certificates(file: CheckedFile) -> bool:
    """Check that every certificate is in a file that is accounted for."""
    known = set(map(_plain, _PEM.findall(file.of_base)))
    for path in file.origins:
        if path.startswith(_CERTIFICATES):
            known |= set(map(_plain, _PEM.findall(file.roots.read(path))))
    return _data(file) and {_plain(item) for item in _PEM.findall(file.content)} <= known


def _plain(text: bytes) -> bytes:
    return b"".join(text.split())


def _accounts(file: CheckedFile) -> bool:
    """Check that the accounts of the base image are unchanged, and that the others are of programs."""
    kind = PurePosixPath(file.path).name.rstrip("-")
    before = file.roots.read(f"/etc/{kind}", of_base=True).decode("utf-8", "replace").splitlines()
    now = file.content.decode("utf-8", "replace").splitlines()
    names = [line.partition(":")[0] for line in now]
    is_backup = file.path.endswith("-")
    return (
        _data(file)
        and len(set(names)) == len(names)
        and (is_backup or set(before) <= set(now))
        and all(re.fullmatch(_ACCOUNTS[kind], line) for line in now if line not in before)
    )


def _addition(file: CheckedFile) -> bool:
    """Check that a file is that of the base image with the given text after it."""
    return _data(file) and file.content == file.of_base + file.value.encode()


def _names(file: CheckedFile) -> bool:
    """Check that a list has only the given packages, each with its version."""
    names = [line.partition("==")[0] for line in file.content.decode("utf-8", "replace").splitlines()]
    return _data(file) and set(map(normal, names)) <= set(file.value.split())


def _metadata(file: CheckedFile) -> bool:
    """Check the metadata of an editable installation, which Python reads in its source tree too."""
    name = PurePosixPath(file.path).name
    if name != "entry_points.txt":
        return _data(file) and name in _METADATA
    found = (path for path in file.origins if path.endswith(".dist-info/entry_points.txt"))
    return _data(file) and any(file.roots.read(path) == file.content for path in found)


def _git(file: CheckedFile) -> bool:
    """Check that nothing of git's own files runs by itself: no hook, and no setting but its usual ones."""
    parts = PurePosixPath(file.value).parts
    if "hooks" in parts:
        return file.is_plain and parts[-1].endswith(".sample")
    if parts[-1] in {"config", "config.worktree"}:
        return _data(file) and all(map(_GIT_SETTING.fullmatch, file.content.decode("utf-8", "replace").splitlines()))
    return _data(file)


def _byte_code(file: CheckedFile) -> bool:
    """Check that Python makes the same byte code of the source beside it, which is accounted for."""
    found = re.fullmatch(r"(.*)/__pycache__/([^/]+)\.[a-z]+-\d+\.pyc", file.path)
    source = f"{found[1]}/{found[2]}.py" if found else ""
    if source not in file.origins or not _data(file) or file.content[:4] != MAGIC_NUMBER:
        return False
    try:
        made = compile(file.roots.read(source), "", "exec", dont_inherit=True, optimize=0)
        return _is_same(marshal.loads(file.content[16:]), made)  # noqa: S302  in a container without a network
    except (ValueError, TypeError, EOFError, SyntaxError):
        return False


def _is_same(one: object, other: object) -> bool:
    """Return whether two constants are equal; code is equal if it does the same, wherever it is."""
    if type(one) is not type(other):
        return False
    if isinstance(one, CodeType) and isinstance(other, CodeType):
        fields = (*_OF_CODE, *(["co_exceptiontable"] if hasattr(one, "co_exceptiontable") else []))
        return all(getattr(one, name) == getattr(other, name) for name in fields) and _is_same(
            one.co_consts, other.co_consts
        )
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return one == other or repr(one) == repr(other)


_RULES: Mapping[str, Callable[[CheckedFile], bool]] = {
    "accounts": _accounts,
    "addition": _addition,
    "alternative": _alternative,
    "any": lambda file: file.is_plain or file.is_link,
    "byte code": _byte_code,
    "certificates": _certificates,
    "data": _data,
    "fewer lines": _fewer_lines,
    "file": lambda file: file.is_plain,
    "empty": lambda file: _data(file) and file.size == 0,
    "git": _git,
    "link": _link,
    "link within": _link_within,
    "metadata": _metadata,
    "packages": _names,
}
