"""The known world: releases of components, what they go with, chips."""

from collections.abc import Mapping
from typing import Annotated, Literal

from envbuilder import versions
from envbuilder.errors import Where
from envbuilder.matrix.model.scalars import (
    INJECTED,
    Commit,
    Date,
    Family,
    Line,
    Name,
    Prose,
    Requirement,
    Specifier,
    Url,
    Version,
)
from envbuilder.matrix.record import NOTHING, Record


class Release(Record):
    """One release of a component and what it goes with, in two levels: paired, and stated to be compatible."""

    version: Version
    date: Date | None = None
    commit: Commit | None = None
    python: Specifier | None = None
    # conditions on what is not a Python package: the vendor's toolkit, the driver
    needs: Mapping[Name, Specifier] = NOTHING
    requires: tuple[Requirement, ...] = ()
    build_requires: tuple[Requirement, ...] = ()
    # what the published wheel asks for and a build for this field does not: its conflicts are expected
    metadata_requires: tuple[Requirement, ...] = ()
    paired: Mapping[Name, tuple[Family, ...]] = NOTHING
    compatible: Mapping[Name, tuple[Family, ...]] = NOTHING
    excluded: Mapping[Name, tuple[Family, ...]] = NOTHING
    images: tuple[Line, ...] = ()
    build: Mapping[Name, Line] = NOTHING
    status: Literal["known", "candidate"] = "known"
    sources: tuple[Line, ...] = ()
    note: Prose | None = None
    where: Annotated[Where, INJECTED]

    def reference(self, kind: Literal["git", "sdist"]) -> str:
        """Return what identifies the source: the commit of a repository, the version of a source archive."""
        return (self.commit or "") if kind == "git" else versions.public(self.version)


class Sdist(Record):
    """A source archive on the package index: the declared alternative to the repository."""

    # the folder of the repository that the archive holds
    holds: Line = "."
    # whether its metadata is that of the CUDA build, so that installers complain about it
    foreign_metadata: bool = False


class Component(Record):
    """Everything known about one piece of software. `complete` means that a release not listed does not exist."""

    title: Line
    kind: Literal["wheel", "git", "vendor"]
    source: Line
    distribution: Name | None = None
    # whether releases of the same name on the package index are releases of this
    on_index: bool = True
    # its setup.py tags every wheel for one platform, so that `pip check` complains on the others
    wrong_platform_tag: bool = False
    # how its source archive on the package index differs from the repository, where it has one
    sdist: Sdist | None = None
    repository: Url | None = None
    # a large wheel, installed in a layer of its own
    heavy: bool = False
    # shares its files with another package, so it is installed once more after everything else
    last: bool = False
    complete: bool = True
    # its wheels have a version that is not that of the release
    own_version: bool = False
    # what Python calls it, where that is not its name
    modules: tuple[Line, ...] = ()
    # what it brings that is not a Python package; found by the names of the files
    libraries: tuple[Line, ...] = ()
    build: Mapping[Name, Line] = NOTHING
    releases: tuple[Release, ...] = ()
    name: Annotated[str, INJECTED]
    where: Annotated[Where, INJECTED]

    @property
    def index_name(self) -> str:
        """Return its name on the package index."""
        return self.distribution or self.name.replace("_", "-")

    def release(self, version: str) -> Release | None:
        """Return the release of a version, one with the same local label first."""
        found = [release for release in self.releases if versions.same(release.version, version)]
        exact = [release for release in found if versions.key(release.version) == versions.key(version)]
        return next(iter(exact or found), None)


class ChipFamily(Record):
    title: Line
    supported: bool = True
    # names, or patterns of them
    chips: tuple[Line, ...] = ()
    pci: tuple[Line, ...] = ()
    memory: Literal["hbm", "ddr"] | None = None
    # how tags of images name them
    image_words: tuple[Line, ...] = ()
    # a tag that names no chip means these
    unmarked_images: bool = False
    soc_names: tuple[Line, ...] = ()
    note: Prose | None = None
    where: Annotated[Where, INJECTED]


class Chips(Record):
    """chips.yaml: the chip families, what npu-smi calls their chips, and the SOC names compilers take."""

    source: Line
    families: Mapping[Name, ChipFamily]


class Tool(Record):
    version: Version
    source: Line


class Defaults(Record):
    framework: Name
    engine: Name
    hardware: Name


class Package(Record):
    """A distribution that must never be installed under this name."""

    reason: Prose
    source: Line
    where: Annotated[Where, INJECTED]


class Root(Record):
    """matrix.yaml: what holds for every environment. A folder that has this file is a whole matrix."""

    defaults: Defaults
    tools: Mapping[Name, Tool]
    refused_packages: Mapping[Name, Package] = NOTHING
