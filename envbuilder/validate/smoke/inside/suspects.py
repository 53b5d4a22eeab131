"""Finds the files of an image that should not be shipped. Files that a Python package lists are public."""

from __future__ import annotations

import os
import re
import stat
import sysconfig
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

_ELSEWHERE = ("/proc", "/sys", "/dev", "/run")
_FOR_ALL = ("/tmp/", "/var/tmp/")  # noqa: S108  where every user may write
# programs that a Linux distribution gives more rights than their user has
_PRIVILEGED = {
    "arping", "at", "chage", "chfn", "chsh", "clockdiff", "crontab", "dbus-daemon-launch-helper", "dotlockfile",
    "expiry", "fusermount", "fusermount3", "gpasswd", "mount", "newgidmap", "newgrp", "newuidmap",
    "pam_extrausers_chkpwd", "pam_timestamp_check", "passwd", "ping", "pkexec", "polkit-agent-helper-1", "ssh-agent",
    "ssh-keysign", "staprun", "su", "sudo", "umount", "unix_chkpwd", "utempter", "wall", "write",
}  # fmt: skip
# files of a distribution that hold no secret of the builder
_PUBLIC = ("/usr/bin/", "/usr/include/", "/usr/lib/", "/usr/sbin/", "/usr/share/", "/usr/src/", "/var/lib/dpkg/")
_LARGEST = 1 << 16
_KEY = re.compile(rb"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----\s+[^-]{40}")
_TOKEN = re.compile(
    rb"\b(?:hf_[A-Za-z0-9]{34}|gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{60}|glpat-[\w-]{20}|AKIA[0-9A-Z]{16}"
    rb"|xox[abprs]-[\w-]{20}|sk-[A-Za-z0-9]{40}|pypi-AgE[\w-]{50}|npm_[A-Za-z0-9]{36})"
)


def walk(folder: str, device: int, without: tuple[str, ...]) -> Iterator[os.DirEntry[str]]:
    """Yield everything in a folder, except in these folders and on other devices."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.path in without:
                continue
            yield entry
            if entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_dev == device:
                yield from walk(entry.path, device, without)


def capability(path: str) -> bytes:
    """Return the rights that a program gets besides those of its user, as the file system has them."""
    try:
        return os.getxattr(path, "security.capability", follow_symlinks=False)
    except OSError:
        return b""


def is_privileged(path: str, status: os.stat_result) -> bool:
    """Return whether a program runs with rights that its user does not have."""
    is_program = stat.S_ISREG(status.st_mode) and bool(status.st_mode & 0o111)
    return is_program and (bool(status.st_mode & (stat.S_ISUID | stat.S_ISGID)) or capability(path) != b"")


def rights(path: str, status: os.stat_result, ours: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    mode = status.st_mode
    if is_privileged(path, status) and Path(path).name not in _PRIVILEGED:
        yield "privileged", "runs with the rights of its owner"
    is_open = mode & stat.S_IWOTH and not mode & stat.S_ISVTX and (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    if is_open and not path.startswith(_FOR_ALL):
        yield "writable", "can be changed by every user"
    if status.st_uid != 0 and path.startswith(ours):
        yield "owner", f"belongs to user {status.st_uid}, not to root"


def secrets(path: str, status: os.stat_result) -> Iterator[tuple[str, str]]:
    if not stat.S_ISREG(status.st_mode) or not 0 < status.st_size <= _LARGEST or path.startswith(_PUBLIC):
        return
    content = Path(path).read_bytes()
    if _KEY.search(content):
        yield "key", "is a private key"
    if _TOKEN.search(content):
        yield "token", "contains an access token"


def suspects(sources: str, vendor: str) -> dict[str, dict[str, str]]:
    """Return the files by kind, each with its reason; the folder of the vendor's toolkit is as its image has it."""
    listed = {
        os.path.normpath(str(item.locate_file(file))) for item in metadata.distributions() for file in item.files or []
    }
    folders = (Path(sources).parent, sysconfig.get_path("platlib"), sysconfig.get_path("scripts"), "/root")
    ours = tuple(f"{folder}/" for folder in folders)
    found: dict[str, dict[str, str]] = {}
    for entry in walk("/", Path("/").stat().st_dev, (*_ELSEWHERE, vendor)):
        status = entry.stat(follow_symlinks=False)
        reasons = list(rights(entry.path, status, ours))
        if entry.path not in listed:
            reasons += secrets(entry.path, status)
        for kind, reason in reasons:
            found.setdefault(kind, {})[entry.path] = reason
    return found
