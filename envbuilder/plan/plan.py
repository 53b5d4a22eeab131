"""What a plan is."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from envbuilder.errors import Where
from envbuilder.matrix.model import Product
from envbuilder.network import OFFLINE

Value: TypeAlias = "str | tuple[str, ...] | Mapping[str, str]"


# the stage that has what source builds need, and nothing else
BUILD_STAGE = "build"
# what every Dockerfile reads where it is given
_SECRETS = ("network", "ca")


class Source(NamedTuple):
    """An archive of a component's source that lies ready."""

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
    # a script finds these on the host, whose packages belong to its administrator
    only_in_images: bool = False
    # the parts of the lock that the steps read
    locks: tuple[str, ...] = ()
    # the archive that they unpack, as a file name
    archive: str | None = None
    # whether they install the wheels that were built from source
    wheels: bool = False
    # a stage that must be done first, for the sake of a cache that both use
    after: str | None = None


@dataclass(frozen=True)
class Stage:
    """Layers upon a base: the base image (None), or another stage."""

    name: str
    parent: str | None
    layers: tuple[Layer, ...]
    # whether it leaves wheels; without layers they are kept ones, which lie in the context
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
    base_image: str
    python: str
    tools: tuple[str, ...]
    # the committed lock, or None where nothing has resolved this environment yet
    lock: str | None
    # how the parts of the lock are told from each other: a `split-lock` step for each
    split: tuple[Step, ...]
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
    # what a build adds: secrets beyond those that are always read, the bill of materials, and the folder OFFLINE
    more_secrets: tuple[str, ...] = ()
    bill: str | None = None
    offline: str | None = None

    @property
    def layers(self) -> tuple[Layer, ...]:
        return tuple(layer for stage in self.stages for layer in stage.layers)

    @property
    def system_packages(self) -> tuple[str, ...]:
        steps = [step for layer in self.layers for step in layer.steps if step.kind == "system-packages"]
        return tuple(name for step in steps for name in step.values["packages"])

    @property
    def complaints(self) -> tuple[str, ...]:
        """What installers say of the environment although everything is as it should be: regular expressions."""
        steps = [step for layer in self.layers for step in layer.steps if step.kind == "pip-check"]
        return tuple(pattern for step in steps for pattern in step.values["allowed"])

    @property
    def wheel_stages(self) -> tuple[Stage, ...]:
        return tuple(stage for stage in self.stages if stage.makes_wheels)

    def keeping(self, names: Collection[str]) -> Plan:
        """The same plan where the wheels of these stages lie ready."""
        stages = [replace(item, parent=None, layers=()) if item.name in names else item for item in self.stages]
        used = {item.parent for item in stages}
        return replace(self, stages=tuple(item for item in stages if item.name != BUILD_STAGE or item.name in used))

    def reading(self, secrets: Iterable[str]) -> Plan:
        """The same plan for a build with these secrets."""
        return replace(self, more_secrets=tuple(name for name in secrets if name not in _SECRETS))

    def cut_off(self) -> Plan:
        """The same plan where nothing outside can be reached."""
        return replace(self, offline=OFFLINE)

    def lineage(self, stage: Stage) -> tuple[Stage, ...]:
        """The stages that a stage stands on, from the base image up to itself."""
        parents = [item for item in self.stages if item.name == stage.parent]
        return (*(self.lineage(parents[0]) if parents else ()), stage)


def lock_part(lock: str, split: Step) -> str:
    """What a `split-lock` step leaves of a lock: the packages whose first line matches, or does not."""
    names, keep, kept = re.compile(str(split.values["names"])), False, []
    for line in lock.splitlines(keepends=True):
        if line[:1].isalnum():
            keep = bool(names.search(line)) == (split.values["keep"] == "1")
        kept += [line] if keep else []
    return "".join(kept)
