"""The types of a plan: stages of layers of steps, and the files that the steps read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from envbuilder.environment.image_names import BILL, OF_THE_PROOF
from envbuilder.environment.locks import Lock, LockedPackage
from envbuilder.environment.packages import LeftOut
from envbuilder.errors import Where
from envbuilder.matrix.model import Product

Value: TypeAlias = "str | tuple[str, ...] | Mapping[str, str]"

# the last stage, which is the image
ENVIRONMENT_STAGE = "environment"
# the secrets that every Dockerfile mounts for steps that need the network
SECRETS = ("network", "ca")
LOCKS, REQUIREMENTS, CHECKS, SOURCES, ARCHIVES = "locks", "requirements", "checks", "sources", "archives"
EXPECTED_CONFLICTS, REMOVED = f"{CHECKS}/expected-conflicts", f"{CHECKS}/removed"
# of every bash in the image, and of source builds
SETUP, TOOLKIT = "setup.sh", "toolkit.sh"
# the programs that install everything else, with their hashes
TOOLS = "tools.txt"
BILL_FILE = "sbom.cdx.json"
# of a project: the folder of its files, and the packages that it adds
FILES, PROJECT_LOCK = "files", f"{LOCKS}/project.txt"
# the steps that a source tree begins with
SOURCE_STEPS = frozenset({"unpack", "fetch", "fetch-archive"})
# the folder of the image from which everything is installed
HOME = "/opt/envbuilder"


class SourceArchive(NamedTuple):
    """An archive of a component's source on this machine."""

    component: str
    kind: Literal["git", "sdist"]
    # the commit, or the version on the package index
    reference: str
    archive: Path
    sha256: str
    # leading folders of its entries to drop, and the folder of the source tree to unpack it into
    strip: int
    into: str


@dataclass(frozen=True)
class Step:
    """A template of templates/steps and its values."""

    kind: str
    values: Mapping[str, Value]
    # its place in the matrices; None for a step that the plan adds
    where: Where | None = None


@dataclass(frozen=True)
class Layer:
    """Steps that are cached, and fail, as a unit."""

    title: str
    steps: tuple[Step, ...]
    # not run on a host, where the administrator installs system packages
    only_in_images: bool = False
    # files of the build context that the steps read
    reads: tuple[str, ...] = ()
    # whether the steps install the wheels that were built from source
    wheels: bool = False


@dataclass(frozen=True)
class Stage:
    """Layers on top of a parent: another stage, or the base image (None)."""

    name: str
    parent: str | None
    layers: tuple[Layer, ...]
    # whether it makes wheels; without layers, the wheels of an earlier build are in the build context
    makes_wheels: bool = False


@dataclass(frozen=True)
class Inputs:
    """What a build on this machine has ready. By default nothing: `docker build` alone fetches everything."""

    sources: Mapping[str, SourceArchive] | None = None
    # names of secrets, such as the password of a mirror
    secrets: Collection[str] = ()
    # whether everything comes from the folder OFFLINE of the build context
    offline: bool = False
    # whether the build context has a bill of materials
    bill: bool = False


NOTHING_READY = Inputs()


@dataclass(frozen=True)
class Plan:
    """Everything that renderers and builds need to know about an environment."""

    environment: str
    # of its build context, below the folder of all Dockerfiles
    folder: str
    title: str
    arch: str
    base_image: str
    python: str
    tools: tuple[LockedPackage, ...]
    # None if the environment is not resolved yet
    lock: Lock | None
    stages: tuple[Stage, ...]
    # the components that are built from source
    components: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    # files that prove that they were compiled
    products: tuple[Product, ...]
    variables: Mapping[str, str]
    # scripts of the vendor that set up a shell, if the hardware has any
    shell_setup: tuple[str, ...]
    labels: Mapping[str, str]
    # text files of the build context: the lock in parts, and the data of the consistency check
    files: Mapping[str, str]
    # of steps that reach the network
    secrets: tuple[str, ...] = SECRETS
    bill: str | None = None
    # the folder of the build context that everything is installed from, in a build without a network
    offline: str | None = None
    # the base image by its digest, if that is known
    pinned_base: str | None = None
    # of a project: its name, and the plan of the row on whose image it makes its additions
    project: str | None = None
    row: Plan | None = None

    @property
    def parts(self) -> tuple[Plan, ...]:
        """Return the plans that the image is made by, one on the image of the other."""
        return (self.row, self) if self.row else (self,)

    @property
    def image_variables(self) -> dict[str, str]:
        """Return the variables of the image; BASH_ENV makes every bash set up the vendor's toolkit."""
        return {**self.variables, **({"BASH_ENV": f"{HOME}/{SETUP}"} if self.shell_setup else {})}

    @property
    def image_labels(self) -> dict[str, str]:
        return {**self.labels, **({BILL: f"{HOME}/{self.bill}"} if self.bill else {})}

    @property
    def unproven_labels(self) -> dict[str, str]:
        """Return the labels by which an image does not inherit the proof of the one that it is built on."""
        return dict.fromkeys(OF_THE_PROOF, "")

    @property
    def layers(self) -> tuple[Layer, ...]:
        return tuple(layer for stage in self.stages for layer in stage.layers)

    @property
    def kept_files(self) -> tuple[str, ...]:
        """Return the files of the build context that stay in the image, besides the lock."""
        if self.project is not None:
            return tuple(filter(None, (PROJECT_LOCK if PROJECT_LOCK in self.files else None, self.bill)))
        return tuple(filter(None, (SETUP if self.shell_setup else None, self.bill)))

    @property
    def system_packages(self) -> tuple[str, ...]:
        """Return the packages of the distribution, by the names that Debian and Ubuntu have for them."""
        steps = [step for layer in self.layers for step in layer.steps if step.kind == "system-packages"]
        return tuple(name for step in steps for name in step.values["packages"])

    @property
    def expected_conflicts(self) -> tuple[str, ...]:
        """Return regular expressions for the lines that `uv pip check` prints for a correct environment."""
        return tuple(self.files[EXPECTED_CONFLICTS].splitlines())

    @property
    def kept_sources(self) -> dict[str, tuple[Step, ...]]:
        """Return the components whose source tree stays in the image, with the steps that made it."""
        found = {
            str(layer.steps[0].values["component"]): layer.steps
            for layer in self.stages[-1].layers
            if any(step.kind in SOURCE_STEPS for step in layer.steps)
        }
        return {name: found[name] for name in self.components if name in found}

    @property
    def discarded_sources(self) -> tuple[str, ...]:
        """Return the components whose source tree is not needed after its wheels are made."""
        return tuple(name for name in self.components if name not in self.kept_sources)

    @property
    def wheel_stages(self) -> tuple[Stage, ...]:
        return tuple(stage for stage in self.stages if stage.makes_wheels)

    def lineage(self, stage: Stage) -> tuple[Stage, ...]:
        """Return the stages from the base image up to a stage."""
        parents = [item for item in self.stages if item.name == stage.parent]
        return (*(self.lineage(parents[0]) if parents else ()), stage)
