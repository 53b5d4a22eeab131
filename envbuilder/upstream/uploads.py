"""What a package index publishes, as far as a draft needs it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from envbuilder import versions
from envbuilder.upstream.tree import ArchiveTree


class Uploads(Protocol):
    """A package index that knows on which day each version was uploaded."""

    def days(self, distribution: str) -> Mapping[str, str]:
        """Return the versions of a distribution with their days; empty where the index does not say."""

    def archive(self, distribution: str, version: str) -> ArchiveTree | None:
        """Return the source archive of a version, or None if the index has none."""


def newest(index: Uploads, distribution: str, conditions: Collection[str], day: str) -> str:
    """Return the newest release that all conditions allow and that was uploaded until a day; empty if there is none."""
    fitting = [
        version
        for version, uploaded in index.days(distribution).items()
        if uploaded <= day and not versions.is_prerelease(version) and fits(version, conditions)
    ]
    return max(fitting, key=versions.key, default="")


def fits(version: str, conditions: Collection[str]) -> bool:
    """Return whether a version meets all conditions; one that is not a condition on versions is left out."""
    return all(_meets(version, condition) for condition in conditions)


def _meets(version: str, condition: str) -> bool:
    try:
        return versions.satisfies(version, condition)
    except ValueError:
        return True
