"""The days on which a package index got its versions, and the source archives of releases, for drafts of rows."""

from __future__ import annotations

from collections.abc import Mapping

from envbuilder import versions
from envbuilder.lock.index import Index
from envbuilder.upstream.tree import ArchiveTree


class IndexUploads:
    """A package index that is asked for the days of its versions, each distribution once."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._days: dict[str, Mapping[str, str]] = {}

    def days(self, distribution: str) -> Mapping[str, str]:
        """Return the versions of a distribution with their days; empty where the index does not say."""
        if distribution not in self._days:
            self._days[distribution] = self._index.days(distribution)
        return self._days[distribution]

    def archive(self, distribution: str, version: str) -> ArchiveTree | None:
        """Return the source archive of a version, or None if the index has none."""
        files = (
            file for file in self._index.files(distribution) if not file.is_wheel and file.name.endswith(".tar.gz")
        )
        file = next((file for file in files if versions.same(file.version, version)), None)
        day = next((day for item, day in self.days(distribution).items() if versions.same(item, version)), None)
        if file is None or day is None:
            return None
        return ArchiveTree(f"pypi/{distribution}@{version}", day, self._index.read(file))
