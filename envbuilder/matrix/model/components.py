"""The compat tables: releases of components, what they are compatible with, chip families, refused packages."""

from collections.abc import Mapping
from typing import Annotated, Literal

from envbuilder import versions
from envbuilder.errors import Where
from envbuilder.language import tr
from envbuilder.matrix.model.reads import OwnImage, StatedVersion
from envbuilder.matrix.model.scalars import (
    INJECTED,
    Arch,
    Commit,
    Date,
    Family,
    Line,
    Name,
    Prose,
    Requirement,
    Sha256,
    Specifier,
    Url,
    Version,
)
from envbuilder.matrix.record import NOTHING, Record


class Release(Record):
    """One release of a component and its partners, in two levels: paired, and stated to be compatible."""

    version: Version
    date: Date | None = None
    commit: Commit | None = None
    # if the commit is not published: the source archive of the package index, then the only source
    archive: Sha256 | None = None
    # the version that the source at the commit states, if it differs
    version_at_commit: Version | None = None
    python: Specifier | None = None
    # conditions on software that is not a Python package: the vendor's toolkit, the driver
    needs: Mapping[Name, Specifier] = NOTHING
    requires: tuple[Requirement, ...] = ()
    build_requires: tuple[Requirement, ...] = ()
    # requirements of the published wheel only, not of the build from source: their conflicts are expected
    metadata_requires: tuple[Requirement, ...] = ()
    # files of a published wheel that differ from its RECORD
    unlike_record: tuple[Line, ...] = ()
    paired: Mapping[Name, tuple[Family, ...]] = NOTHING
    compatible: Mapping[Name, tuple[Family, ...]] = NOTHING
    excluded: Mapping[Name, tuple[Family, ...]] = NOTHING
    images: tuple[Line, ...] = ()
    build: Mapping[Name, Line] = NOTHING
    status: Literal["known", "candidate"] = "known"
    sources: tuple[Line, ...] = ()
    # of several sources, the one that states the compatible releases of a component
    stated_in: Mapping[Name, Line] = NOTHING
    note: Prose | None = None
    where: Annotated[Where, INJECTED]

    @property
    def kind(self) -> Literal["git", "sdist"]:
        """Return the default form of its source."""
        return "git" if self.commit else "sdist"

    @property
    def fixed(self) -> bool:
        """Return whether its source cannot change, as a branch or tag can."""
        return bool(self.commit or self.archive)

    def is_paired(self, name: str, version: str) -> bool:
        """Return whether it was published with this version of another component."""
        return any(versions.in_family(version, family) for family in self.paired.get(name, ()))

    def reference(self, kind: Literal["git", "sdist"]) -> str:
        """Return the commit of a repository, or the version of a source archive."""
        return (self.commit or "") if kind == "git" else versions.public(self.version)


class Sdist(Record):
    """A source archive on the package index: the declared alternative to the repository."""

    # the folder of the repository that is in the archive
    holds: Line = "."
    # whether it has the metadata of the CUDA build, so that installers report conflicts
    foreign_metadata: bool = False


class Submodule(Record):
    """A submodule of a repository that only layers with a need read, such as the sources of kernels."""

    path: Line
    repository: Url
    needs: Name
    # the releases that have it; all where it is left out
    versions: Specifier | None = None


class Component(Record):
    """One piece of software and its releases. `complete` means that a release not listed does not exist."""

    title: Line
    kind: Literal["wheel", "git", "vendor"]
    source: Line
    distribution: Name | None = None
    # its names among users
    aliases: tuple[Name, ...] = ()
    # whether the package of the same name on the index is this component
    on_index: bool = True
    # whether its setup.py tags every wheel for one platform, so that `pip check` reports it on the others
    wrong_platform_tag: bool = False
    # its source archive on the package index, if it has one
    sdist: Sdist | None = None
    repository: Url | None = None
    submodules: tuple[Submodule, ...] = ()
    # a large wheel, which is installed in a separate layer, and packages that it loads as libraries
    heavy: bool = False
    brings: tuple[Name, ...] = ()
    # whether it shares files with another package, so that it is installed again after all others
    last: bool = False
    complete: bool = True
    # whether the version of its wheels differs from that of the release
    own_version: bool = False
    # folders of its source tree that are Python packages
    packages: tuple[Line, ...] = ()
    # its Python modules, if they differ from its name
    modules: tuple[Line, ...] = ()
    # libraries that are not Python packages, found by their file names
    libraries: tuple[Line, ...] = ()
    build: Mapping[Name, Line] = NOTHING
    # its names in documents, requirements and addresses of its project
    called: tuple[Line, ...] = ()
    # the components whose versions decide its release: the pairs of its table, or of theirs
    paired_by: tuple[Name, ...] = ()
    # the component whose version its own begins with
    like: Name | None = None
    # what precedes the version in its tags
    tag_prefix: Line | None = None
    # what precedes the version in the names of its branches, if these and not its tags are its releases
    branch_prefix: Line | None = None
    stated_version: StatedVersion | None = None
    own_image: OwnImage | None = None
    releases: tuple[Release, ...] = ()
    name: Annotated[str, INJECTED]
    where: Annotated[Where, INJECTED]

    @property
    def index_name(self) -> str:
        """Return its name on the package index."""
        return self.distribution or self.name.replace("_", "-")

    def release(self, version: str) -> Release | None:
        """Return the release of a version, preferably one with the same local label."""
        found = [release for release in self.releases if versions.same(release.version, version)]
        exact = [release for release in found if versions.key(release.version) == versions.key(version)]
        return next(iter(exact or found), None)


class KnownFile(Record):
    """The name and hash of a wheel, and where they are published."""

    file: Line
    sha256: Sha256
    sources: tuple[Line, ...]
    where: Annotated[Where, INJECTED]

    @property
    def publishers(self) -> frozenset[str]:
        """Return the organisations that publish the hash; several files of one count once."""
        return frozenset(source.partition("/")[0].partition(" ")[0] for source in self.sources)


class KnownRelease(Record):
    version: Version
    requires: tuple[Requirement, ...] = ()
    files: tuple[KnownFile, ...]


class KnownWheels(Record):
    """wheels/NAME.yaml: wheels of an index that not every machine can reach, for locks made without it."""

    index: Url
    source: Line
    releases: tuple[KnownRelease, ...]
    name: Annotated[str, INJECTED]
    where: Annotated[Where, INJECTED]


class ChipFamily(Record):
    """A family of NPU chips, and the names that identify it."""

    title: Line
    supported: bool = True
    # whether other software serves models on it, while no row trains on it
    serves: bool = False
    # words that identify training software for it which no row has
    trained_by: tuple[Line, ...] = ()
    # names, or patterns of them
    chips: tuple[Line, ...] = ()
    pci: tuple[Line, ...] = ()
    memory: Literal["hbm", "ddr"] | None = None
    # words of image tags that name the family
    image_words: tuple[Line, ...] = ()
    # whether an image tag without such a word is for this family
    unmarked_images: bool = False
    soc_names: tuple[Line, ...] = ()
    # the numbers of its chips in torch_npu
    soc_numbers: tuple[int, ...] = ()
    # its names among users: products, and short names that no tool prints
    spoken: tuple[Line, ...] = ()
    note: Prose | None = None
    where: Annotated[Where, INJECTED]


class Chips(Record):
    """chips.yaml: the chip families, the names of their chips in npu-smi, and the SOC names for compilers."""

    source: Line
    families: Mapping[Name, ChipFamily]


class Tool(Record):
    """A program of the package index that installs everything else, with the hashes of its wheels."""

    version: Version
    source: Line
    wheels: Mapping[Arch, tuple[Sha256, ...]]


class Defaults(Record):
    framework: Name
    engine: Name
    hardware: Name


class Package(Record):
    """A package that must never be installed under this name."""

    reason: Prose
    source: Line
    where: Annotated[Where, INJECTED]


class Clash(Record):
    """Versions of packages that fail together, although their metadata allows them."""

    packages: Mapping[Name, Specifier]
    because: Prose
    source: Line

    def has(self, installed: Mapping[str, str]) -> bool:
        return all(
            name in installed and versions.satisfies(installed[name], specifier)
            for name, specifier in self.packages.items()
        )

    @property
    def remedy(self) -> str:
        return tr(
            "add a requirement to the row that keeps {names} out of this range", names=tr(" or ").join(self.packages)
        )

    def message(self, installed: Mapping[str, str]) -> str:
        shown = tr(" and ").join(f"{name} {installed[name]}" for name in self.packages)
        return tr("{packages} do not work together: {because}", packages=shown, because=self.because)


class LocalBase(Record):
    """A base image that can be built locally from the packages of a distribution."""

    suite: Name
    python: Version
    packages: tuple[Name, ...]
    # an additional word of its name
    word: Name | None = None


class StandIn(Record):
    """The base image of a rehearsal, to which the stand-in of CANN is added, and the free space that it needs."""

    base: LocalBase
    disk_gb: int
    # the release of the driver that its npu-smi prints
    driver: Version


class System(Record):
    """An operating system of base images: its name in tags, its packages and its folders."""

    title: Line
    tag: Line
    installer: Literal["apt", "dnf"]
    # the folder of its libraries
    libraries: Line
    # its packages in place of those of the other systems, where the names differ
    packages: Mapping[Line, tuple[Line, ...]] = NOTHING
    source: Line


class Root(Record):
    """matrix.yaml: values for every environment. A folder that has this file is a whole matrix."""

    defaults: Defaults
    tools: Mapping[Name, Tool]
    refused_packages: Mapping[Name, Package] = NOTHING
    clashes: tuple[Clash, ...] = ()
    stand_in: StandIn | None = None
    systems: Mapping[Name, System] = NOTHING
