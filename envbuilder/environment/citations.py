"""Turns the sources of the matrices into addresses that a browser opens."""

from __future__ import annotations

import re
from urllib.parse import quote

# owner/repository@commit:path#lines, where path and lines may be missing
_FILE = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)@(?P<ref>[\w./+-]+?)(:(?P<path>[^#]+?)(?P<lines>#L[\d-]+L?\d*)?)?")
_THREAD = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)#(?P<number>\d+)")
_HOST = "https://github.com"
# releases of the package index, and packages of a distribution
_PACKAGES = ("pypi/", "debian/")


def address(source: str) -> str | None:
    """Return the address of a source, that of the first of several files; None for a package."""
    if source.startswith(_PACKAGES):
        return None
    source = source.partition(", ")[0]
    if "://" in source:
        return source
    if thread := _THREAD.fullmatch(source):
        return f"{_HOST}/{thread['repository']}/issues/{thread['number']}"
    if file := _FILE.fullmatch(source):
        if file["path"] is None:
            return f"{_HOST}/{file['repository']}/tree/{file['ref']}"
        return f"{_HOST}/{file['repository']}/blob/{file['ref']}/{quote(file['path'])}{file['lines'] or ''}"
    # a page of another host, without its scheme
    return f"https://{source}" if "." in source.partition("/")[0] and " " not in source else None
