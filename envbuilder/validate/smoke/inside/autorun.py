"""Lists what of an image may run by itself, or decides what runs, for a person to look at."""

from __future__ import annotations

import configparser
import os
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from suspects import is_privileged

if TYPE_CHECKING:
    from owners import Roots

# by the first that matches a path
_KINDS = {
    "startup modules": re.compile(r".*/(?:sitecustomize|usercustomize)(?:\.[^/]*|/__init__\.[^/]*)"),
    "shell": re.compile(
        r"/etc/(?:profile|environment|bash\.bashrc|bashrc|profile\.d/.*)|/(?:root|home/[^/]+)/\.(?:bash\w*|profile|zsh\w*|pam_environment)"
    ),
    "cron": re.compile(r"/etc/(?:cron[^/]*|anacrontab)(?:/.*)?|/var/spool/(?:cron|at)/.*"),
    "services": re.compile(r"/etc/(?:init\.d|rc[^/]*|systemd|xdg/autostart)(?:/.*)?|/etc/inittab"),
    "linker": re.compile(r"/etc/ld\.so\.(?:conf|preload|conf\.d/.*)"),
    "keys": re.compile(r"/(?:root|home/[^/]+)/\.ssh/.*"),
}
# groups of entry points that a user calls by name
_CALLED = {"console_scripts", "gui_scripts"}


def autorun(root: str, files: Mapping[str, os.stat_result], roots: Roots) -> dict[str, dict[str, str]]:
    """Return by kind what may run, and the file that says so; an account is named with its number and shell."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for path, status in sorted(files.items()):
        for kind in _kinds(root, path, status, roots):
            found[kind][path] = path
    found["accounts"] = dict.fromkeys(_accounts(roots), "/etc/passwd")
    return dict(found)


def _kinds(root: str, path: str, status: os.stat_result, roots: Roots) -> Iterator[str]:
    folder, _, name = path.rpartition("/")
    if name.endswith(".pth") and folder in roots.sites:
        yield "pth"
    yield from (kind for kind, pattern in _KINDS.items() if pattern.fullmatch(path))
    if is_privileged(root + path, status):
        yield "privileged"
    # Python looks for them beside its packages, and in the source trees that it imports from
    is_found = folder.rpartition("/")[0] in roots.sites or folder.endswith(".egg-info")
    if name == "entry_points.txt" and is_found and _groups(roots.read(path)):
        yield "plug-ins"


def _groups(text: bytes) -> list[str]:
    parser = configparser.ConfigParser(delimiters=("=",), strict=False, interpolation=None)
    try:
        parser.read_string(text.decode("utf-8", "replace"))
    except configparser.Error:
        return ["?"]
    return [name for name in parser.sections() if name not in _CALLED]


def _accounts(roots: Roots) -> list[str]:
    """Return the accounts that have the rights of root, or a shell."""
    found: list[str] = []
    for line in roots.read("/etc/passwd").decode("utf-8", "replace").splitlines():
        fields = [*line.split(":"), *[""] * 7]
        number, shell = fields[2], fields[6]
        if number.strip("0") == "" or not shell.endswith(("/nologin", "/false", "/sync")):
            found.append(f"{fields[0]}: {number}, {shell}")
    return found
