"""The files that the vendor's packages leave on a host: versions, and what they say they go with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from envbuilder import versions

_LINE = re.compile(r"^\s*([A-Za-z][A-Za-z0-9_.]*)\s*=\s*(.*?)\s*$")
_RANGE = re.compile(r"\[([^\[\],]+)(?:,([^\[\]]+))?\]")


def values(text: str) -> dict[str, str]:
    """`Version=23.0.7` and its like, by key in lower case; the first wins."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if match := _LINE.match(line):
            found.setdefault(match[1].lower(), match[2].strip('"'))
    return found


def admits(ranges: str, version: str) -> bool | None:
    """Whether `[7.0.0,7.1.99],[7.3.0]` has room for a version; None where it cannot be read.

    An upper end with a dot behind it stands for everything that begins so.
    """
    found = _RANGE.findall(ranges)
    if not found:
        return None
    return any(_between(low.strip(), (high or low).strip(), version) for low, high in found)


def _between(low: str, high: str, version: str) -> bool:
    if versions.key(version) < versions.key(low.rstrip(".")):
        return False
    begins = high.endswith(".") and f"{version.lower()}.".startswith(high.lower())
    return begins or versions.key(version) <= versions.key(high.rstrip("."))


def disagreements(driver: Mapping[str, str], firmware: Mapping[str, str]) -> Iterator[str]:
    """Driver and firmware each name the versions of the other that they go with."""
    for (name, ours), (partner, theirs), key in (
        (("driver", driver), ("firmware", firmware), "compatible_version_fw"),
        (("firmware", firmware), ("driver", driver), "compatible_version_drv"),
    ):
        ranges, version = ours.get(key), theirs.get("version")
        if ranges and version and admits(ranges, version) is False:
            yield f"{name} {ours.get('version')} goes with {partner} {ranges}, and {version} is none of it"
