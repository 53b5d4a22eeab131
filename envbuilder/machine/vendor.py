"""Reads the files of the vendor's packages on a host: their versions, and the versions they are compatible with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from envbuilder import versions
from envbuilder.language import tr

_LINE = re.compile(r"^\s*([A-Za-z][A-Za-z0-9_.]*)\s*=\s*(.*?)\s*$")
_RANGE = re.compile(r"\[([^\[\],]+)(?:,([^\[\]]+))?\]")


def values(text: str) -> dict[str, str]:
    """Return the values of lines such as `Version=23.0.7` by key in lower case; the first of equal keys wins."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if match := _LINE.match(line):
            found.setdefault(match[1].lower(), match[2].strip('"'))
    return found


def admits(ranges: str, version: str) -> bool | None:
    """Return whether ranges such as `[7.0.0,7.1.99],[7.3.0]` include a version, or None if they cannot be read.

    An upper end with a trailing dot includes every version with that prefix.
    """
    found = _RANGE.findall(ranges)
    if not found:
        return None
    return any(_between(low.strip(), (high or low).strip(), version) for low, high in found)


def _between(low: str, high: str, version: str) -> bool:
    # a release candidate counts as one of the release: [24.1,24.1.] includes 24.1.rc3
    if high.endswith(".") and f"{version.lower()}.".startswith(high.lower()):
        return versions.key(low.rstrip(".")) <= versions.key(high.rstrip("."))
    return versions.key(low.rstrip(".")) <= versions.key(version) <= versions.key(high.rstrip("."))


def disagreements(driver: Mapping[str, str], firmware: Mapping[str, str]) -> Iterator[str]:
    """Yield a message where the driver or the firmware does not list the other as compatible."""
    for (name, ours), (partner, theirs), key in (
        (("driver", driver), ("firmware", firmware), "compatible_version_fw"),
        (("firmware", firmware), ("driver", driver), "compatible_version_drv"),
    ):
        ranges, version = ours.get(key), theirs.get("version")
        if ranges and version and admits(ranges, version) is False:
            yield tr(
                "{name} {present} is compatible with {partner} {ranges}, and not with {version}",
                name=tr(name),
                present=ours.get("version"),
                partner=tr(partner),
                ranges=ranges,
                version=version,
            )
