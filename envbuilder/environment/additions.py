"""What a project adds to an environment: packages, its own sources, variables and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from envbuilder.environment.cascade import ResolvedPin
    from envbuilder.environment.locks import LockedPackage


class OwnSource(NamedTuple):
    """A source tree in place of the row's: a folder, or a repository at a commit."""

    component: str
    folder: Path | None
    repository: str = ""
    commit: str = ""

    @property
    def shown(self) -> str:
        return str(self.folder) if self.folder else f"{self.repository}@{self.commit}"


@dataclass(frozen=True)
class Additions:
    """What a project adds to an environment, with the packages of its lock."""

    project: str
    # of its file, to which all paths are relative
    folder: Path
    # the requirements that the file names; the packages are these and what they need
    requirements: tuple[str, ...]
    packages: tuple[LockedPackage, ...]
    system_packages: tuple[str, ...]
    variables: Mapping[str, str]
    # the path in the image of each path of the project
    files: Mapping[str, str]
    sources: Mapping[str, OwnSource]
    # the row's pins of the packages that the project has in another version
    moved: Mapping[str, ResolvedPin]
    lock_digest: str

    @property
    def versions(self) -> dict[str, str]:
        return {item.name: item.version for item in self.packages}
