"""What a plan is: stages of layers of steps, and the files that the steps read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from envbuilder.environment.image_names import BILL
from envbuilder.environment.locks import Lock
from envbuilder.errors import Where
from envbuilder.matrix.model import Product
from envbuilder.network import OFFLINE

Value: TypeAlias = "str | tuple[str, ...] | Mapping[str, str]"

# the stage that has the packages of source builds, and nothing else
BUILD_STAGE = "build"
# the secrets that every Dockerfile mounts where it reaches the network
_SECRETS = ("network", "ca")
LOCKS, CHECKS, SOURCES = "locks", "checks", "sources"
EXPECTED_CONFLICTS, REMOVED = f"{CHECKS}/expected-conflicts", f"{CHECKS}/removed"
SETUP = "setup.sh"
# of the image, where everything is installed from
HOME = "/opt/envbuilder"


class SourceArchive(NamedTuple):
    """An archive of a component's source on this machine."""

    component: str
    kind: Literal["git", "sdist"]
    # the commit, or the version on the package index
    reference: str
    archive: Path
    sha256: str
    # leading folders of its entries to drop, and the folder of the source tree that it holds
    strip: int
    into: str


@dataclass(frozen=True)
class Step:
    """One filled-in template of templates/steps."""

    kind: str
    values: Mapping[str, Value]
    # where the matrices ask for it; None where the plan does
    where: Where | None = None


@dataclass(frozen=True)
class Layer:
    """Steps that are cached, and fail, as one."""

    title: str
    steps: tuple[Step, ...]
    # not for a host, whose packages belong to its administrator
    only_in_images: bool = False
    # files of the build context that the steps read
    reads: tuple[str, ...] = ()
    # whether the steps install the wheels that were built from source
    wheels: bool = False
    # a stage that must be done first, for the sake of a cache that both use
    after: str | None = None


@dataclass(frozen=True)
class Stage:
    """Layers upon a base: the base image (None), or another stage."""

    name: str
    parent: str | None
    layers: tuple[Layer, ...]
    # whether it makes wheels; without layers they are kept ones, which are in the build context
    makes_wheels: bool = False


@dataclass(frozen=True)
class LeftOut:
    """A layer of the row that this hardware or release cannot have."""

    title: str
    reason: str


@dataclass(frozen=True)
class Plan:
    environment: str
    title: str
    arch: str
    base_image: str
    python: str
    tools: tuple[str, ...]
    # None where nothing has resolved this environment yet
    lock: Lock | None
    stages: tuple[Stage, ...]
    # what is built from source
    components: tuple[str, ...]
    left_out: tuple[LeftOut, ...]
    # files that prove that it was
    products: tuple[Product, ...]
    variables: Mapping[str, str]
    # scripts of the vendor that set up a shell, where the hardware has any
    shell_setup: tuple[str, ...]
    labels: Mapping[str, str]
    # text files of the build context: the lock in parts, what the consistency check expects
    files: Mapping[str, str]
    # what a build adds: secrets beyond the usual ones, the bill of materials, and the folder OFFLINE
    more_secrets: tuple[str, ...] = ()
    bill: str | None = None
    offline: str | None = None

    @property
    def image_variables(self) -> dict[str, str]:
        """Return the variables of the image; with BASH_ENV every bash reads the set-up of the vendor's toolkit."""
        return {**self.variables, **({"BASH_ENV": f"{HOME}/{SETUP}"} if self.shell_setup else {})}

    @property
    def image_labels(self) -> dict[str, str]:
        return {**self.labels, **({BILL: f"{HOME}/{self.bill}"} if self.bill else {})}

    @property
    def layers(self) -> tuple[Layer, ...]:
        return tuple(layer for stage in self.stages for layer in stage.layers)

    @property
    def system_packages(self) -> tuple[str, ...]:
        steps = [step for layer in self.layers for step in layer.steps if step.kind == "system-packages"]
        return tuple(name for step in steps for name in step.values["packages"])

    @property
    def expected_conflicts(self) -> tuple[str, ...]:
        """Return regular expressions for what `uv pip check` prints although everything is as it should be."""
        return tuple(self.files[EXPECTED_CONFLICTS].splitlines())

    @property
    def wheel_stages(self) -> tuple[Stage, ...]:
        return tuple(stage for stage in self.stages if stage.makes_wheels)

    def keeping(self, names: Collection[str]) -> Plan:
        """Return the plan for a build that has the wheels of these stages already."""
        stages = [replace(item, parent=None, layers=()) if item.name in names else item for item in self.stages]
        used = {item.parent for item in stages}
        return replace(self, stages=tuple(item for item in stages if item.name != BUILD_STAGE or item.name in used))

    def reading(self, secrets: Iterable[str]) -> Plan:
        """Return the plan for a build with these secrets."""
        return replace(self, more_secrets=tuple(name for name in secrets if name not in _SECRETS))

    def cut_off(self) -> Plan:
        """Return the plan for a build without a network."""
        return replace(self, offline=OFFLINE)

    def lineage(self, stage: Stage) -> tuple[Stage, ...]:
        """Return the stages from the base image up to a stage."""
        parents = [item for item in self.stages if item.name == stage.parent]
        return (*(self.lineage(parents[0]) if parents else ()), stage)
