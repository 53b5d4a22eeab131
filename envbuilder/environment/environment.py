"""One environment: its values, and everything that is derived from them and from the compat tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from envbuilder.environment import image_names
from envbuilder.environment.cascade import Values, cascade
from envbuilder.environment.coordinates import Coordinates, environments
from envbuilder.environment.driver import TOOLKIT, LeastDriver, least_driver
from envbuilder.environment.placeholders import expand
from envbuilder.environment.proof import TrainingProof, best, proof_of
from envbuilder.environment.select import Rank, rank
from envbuilder.errors import MatrixError, Where
from envbuilder.language import english, tr
from envbuilder.matrix import Matrix
from envbuilder.matrix.model import (
    NPU,
    STAND_IN,
    ChipFamily,
    Chips,
    Clash,
    Device,
    EnvironmentEvidence,
    Evidence,
    Failure,
    Level,
    Package,
    Recipe,
    SmokeRun,
    StandIn,
    Support,
    UsedModules,
)

if TYPE_CHECKING:
    from envbuilder.environment.locks import Lock, LockedPackage
    from envbuilder.environment.packages import Conflict, Packages


# for the layers of a project, on the image of its row
_PROJECT_GB = 3


class Environment(Values):
    """One environment with all its values, so that other packages need no Matrix."""

    @property
    def title(self) -> str:
        engine = self.engine.title if self.engine.plugin in self.pins else self.engine.alone or self.engine.title
        parts = (self.branch.title, engine, f"{self._any_product} ({self.coordinates.arch})")
        return ", ".join(parts)

    @property
    def _any_product(self) -> str:
        """Return the title of the hardware without the product that a user named: all products have the same image."""
        return self.matrix.hardware[self.coordinates.hardware].title

    @property
    def provides(self) -> frozenset[str]:
        """Return what layers may need: CANN, its compilers, a device."""
        # the stand-in of CANN cannot compile kernels for an NPU
        lacking = {"kernel-compiler"} if self.on_stand_in else set()
        return frozenset(self.hardware.provides) - lacking

    @property
    def provider(self) -> str:
        return (
            english("a stand-in of CANN for {hardware}", hardware=self._any_product)
            if self.on_stand_in
            else self._any_product
        )

    @property
    def proof(self) -> Evidence | None:
        """Return the recorded evidence of the highest level."""
        return best(self.evidence)

    @property
    def proven(self) -> Level | None:
        return self.proof.level if self.proof else None

    @property
    def trained(self) -> TrainingProof | None:
        """Return the proof that a default goes by: its own or, if nothing was trained in it, that of its sibling."""
        return proof_of(self.matrix, self.coordinates)

    @property
    def rank(self) -> Rank:
        return rank(self.matrix, self.coordinates)

    @property
    def siblings(self) -> tuple[Environment, ...]:
        """Return the environments of other releases of its framework, otherwise alike; the newest first."""
        own = self.coordinates
        alike = (
            item
            for item in environments(self.matrix)
            if item._replace(branch=own.branch) == own._replace(product=None, system=None)
        )
        return tuple(resolve(self.matrix, item) for item in reversed(list(alike)) if item.branch != own.branch)

    @property
    def chips(self) -> Chips:
        """Return all chip families, to identify the chips of a machine."""
        return self.matrix.chips

    @property
    def chip_family(self) -> ChipFamily:
        return self.matrix.chips.families[self.hardware.family]

    @property
    def least_driver(self) -> LeastDriver | None:
        """Return the oldest driver of a host that its toolkit is published for; None if it has no toolkit."""
        if names := self.hardware.toolkit:
            return least_driver(self.release(names.component), names.driver)
        return least_driver(self.release(TOOLKIT) if TOOLKIT in self.provides else None)

    @property
    def stand_in(self) -> StandIn | None:
        return self.matrix.root.stand_in

    @property
    def disk_gb(self) -> int:
        """Return the free space that a build needs in the data folder of docker."""
        if self.additions is not None:
            return _PROJECT_GB
        return self.stand_in.disk_gb if self.on_stand_in and self.stand_in else self.hardware.disk_gb

    @property
    def is_default_framework(self) -> bool:
        return self.framework.name == self.matrix.root.defaults.framework

    @property
    def tools(self) -> tuple[LockedPackage, ...]:
        """Return the installers, with the hashes of their wheels for this machine."""
        from envbuilder.environment.locks import LockedPackage

        arch, tools = self.coordinates.arch, self.matrix.root.tools
        return tuple(LockedPackage(name, tool.version, tool.wheels.get(arch, ())) for name, tool in tools.items())

    @property
    def refused_packages(self) -> Mapping[str, Package]:
        """Return the packages that must not be installed in any environment, or in those of this branch."""
        return {**self.matrix.root.refused_packages, **self.support.unsupported_packages}

    @property
    def support(self) -> Support:
        """Return what the documents of the branch say about NPUs; nothing of it holds for a GPU."""
        return Support() if self.hardware.has_gpus else self.branch.support

    @property
    def package_names(self) -> frozenset[str]:
        """Return the normalized names of all packages in the matrices, which a pin may have."""
        from envbuilder.requirements import normalize

        listed = (*self.lists["requirements"].values, *self.lists["build_packages"].values)
        return self.matrix.package_names | {normalize(name) for name in listed}

    def clashes(self, locked: Mapping[str, str]) -> dict[str, Clash]:
        """Return the known clashes among locked packages and those that are built from source, by their messages."""
        built = {self.distribution(name): pin.version for name, pin in self.pins.items() if not self.is_wheel(name)}
        installed = {**built, **locked}
        return {clash.message(installed): clash for clash in self.matrix.root.clashes if clash.has(installed)}

    def used_modules(self, device: Device = NPU) -> UsedModules:
        """Return the modules that a training run of this environment imports on a device."""
        used = self._used(device)
        return UsedModules(
            modules=tuple(name for item in used for name in item.modules),
            scanned=tuple(name for item in used for name in item.scanned),
        )

    def imported_first(self, device: Device) -> tuple[str, ...]:
        """Return the modules that a training run imports before all others on a device."""
        return tuple(name for item in self._used(device) if item.first for name in item.modules)

    def _used(self, device: Device) -> list[UsedModules]:
        return [
            item
            for item in (*self.framework.used, *self.engine.used)
            if (item.when is None or self.holds(item.when))
            and (item.device is None or (device in {NPU, STAND_IN} and not self.hardware.has_gpus))
        ]

    @cached_property
    def lock(self) -> Lock | None:
        from envbuilder.environment.locks import read_lock

        folder = self.coordinates.folder
        lock = read_lock(self.matrix.lock_files(folder), str(self.matrix.locks.folder(folder)))
        if lock is None or not self.replaced:
            return lock
        return lock.from_package_index(self.packages.parts)

    @property
    def unresolved(self) -> str | None:
        """Return the recorded reason why this environment has no lock."""
        return self._recorded.unresolved

    @property
    def unlocked_because(self) -> str:
        """Return this reason for a message: the record may be of another machine, which reached other indexes."""
        return tr("on the machine that tried to lock it: {reason}", reason=self.unresolved)

    @property
    def failure(self) -> Failure | None:
        """Return the last proof that failed."""
        return self._recorded.failure

    @property
    def _recorded(self) -> EnvironmentEvidence:
        return self.matrix.evidence.get(self.coordinates.folder, EnvironmentEvidence())

    @property
    def smoke_run(self) -> SmokeRun | None:
        return self.matrix.smoke_runs.get(self.framework.name)

    @property
    def recipes(self) -> tuple[Recipe, ...]:
        return tuple(item for item in self.matrix.recipes if item.framework == self.framework.name)

    # these import packaging, which takes long and `list` does not need

    @cached_property
    def packages(self) -> Packages:
        """Return the input of the resolver."""
        from envbuilder.environment.packages import packages_of

        return packages_of(self)

    @cached_property
    def conflicts(self) -> tuple[Conflict, ...]:
        """Return the unmet requirements of the components that are built from source."""
        from envbuilder.environment.packages import conflicts_of

        return tuple(conflicts_of(self))

    @cached_property
    def toolkit_conflicts(self) -> tuple[Conflict, ...]:
        """Return the unmet requirements of the toolkit."""
        from envbuilder.environment.packages import toolkit_conflicts_of

        return tuple(toolkit_conflicts_of(self))

    def expand(self, text: str, where: Where) -> str:
        """Return the text with every placeholder filled in; `where` is its place in the matrices."""
        return expand(text, self, where)

    def defines(self, text: str) -> bool:
        """Return whether the text has a value in this environment, and so has every placeholder in it."""
        try:
            return bool(self.expand(text, self.where))
        except MatrixError:
            return False

    def image_name(self, registry: str) -> str:
        """Return `<registry>/<framework>:<branch>-<tag of the hardware>-<engine>-<arch>[-rehearsal]` in lower case.

        The image of a project has its name in place of the framework's. One that is called like a framework, as a clone
        of its fork is, must not replace the image of the row.
        """
        where = self.coordinates
        middle = self.expand(self.hardware.image_tag, self.hardware.where)
        end = "-rehearsal" if self.on_stand_in else ""
        owner = self.additions.project if self.additions else where.framework
        if self.additions and owner in self.matrix.frameworks:
            owner = f"{owner}-project"
        return f"{registry}/{owner}:{where.branch}-{middle}-{where.engine}-{where.arch}{end}".lower()

    @property
    def of_row(self) -> Environment:
        """Return the environment without what a project adds to it."""
        if self.additions is None:
            return self
        before = {name: pin._replace(local=self.pins[name].local) for name, pin in self.additions.moved.items()}
        return self.changed(additions=None, pins={**self.pins, **before})

    @property
    def preload(self) -> str | None:
        """Return the library that every bash of an image for NPUs loads before others."""
        path = self.matrix.host.preload if self.system is not None else None
        return self.expand(path, self.where) if path else None

    @property
    def base_image(self) -> str:
        base = self.hardware.base
        return f"{base.image}:{self.expand(base.tag, base.where)}"

    @property
    def base_digest(self) -> str | None:
        """Return the digest of the base image, if the matrices have it."""
        base = self.hardware.base
        return base.digests.get(self.expand(base.tag, base.where))

    @property
    def pinned_base(self) -> str:
        """Return the base image by its digest, or by its tag if the digest is not known."""
        return f"{self.hardware.base.image}@{self.base_digest}" if self.base_digest else self.base_image

    @property
    def engine_images(self) -> tuple[str, ...]:
        """Return the names of the published images of the engine, which have no framework."""
        return tuple(
            f"{item.image}:{self.expand(item.tag, item.where)}".lower()
            for item in self.engine.images
            if item.when is None or self.holds(item.when)
        )

    def with_versions(self, installed: Mapping[str, str]) -> Environment:
        """Return this environment with the versions that a host has installed, and without the reasons of the pins."""
        pins = {
            name: pin._replace(version=installed.get(name, pin.version), because=None, local=None)
            for name, pin in self.pins.items()
        }
        return self.changed(pins=pins)

    @property
    def out_of_reach(self) -> tuple[LockedPackage, ...]:
        """Return the packages that a rehearsal leaves out, as their index could not be reached."""
        from envbuilder.environment.locks import UNHASHED

        return self.lock.parts[UNHASHED] if self.on_stand_in and self.lock else ()

    @property
    def labelled(self) -> tuple[str, ...]:
        """Return the pins that are builds of another index, such as torch 2.8.0+cpu."""
        return tuple(name for name, pin in self.pins.items() if pin.local)

    @property
    def has_fallback(self) -> bool:
        """Return whether builds of the package index may replace those of another one, as both compute on a CPU."""
        has_no_npu = self.hardware.cpu_only or self.on_stand_in
        return has_no_npu and self.lock is not None and bool(self.lock.fallback)

    def from_package_index(self) -> Environment:
        """Return this environment without the builds of other indexes."""
        pins = {name: pin._replace(local=None) for name, pin in self.pins.items()}
        indexes = {name: url for name, url in self.indexes.items() if name not in self.labelled}
        force = self.lists["force"]
        # a package may require the build with its label
        lists = {**self.lists, "force": force._replace(values=(*force.values, *self.labelled))}
        return self.changed(replaced=self.labelled, pins=pins, indexes=indexes, lists=lists)

    @property
    def fallback(self) -> str | None:
        """Return the builds of the package index that replace others: torch 2.8.0."""
        return ", ".join(f"{name} {self.version(name)}" for name in self.replaced) or None

    @property
    def fallback_detail(self) -> dict[str, str]:
        """Return the field of evidence that names these builds."""
        return {"fallback": self.fallback} if self.fallback else {}

    def as_labelled(self, labels: Mapping[str, str]) -> Environment:
        """Return the environment of an image with these labels."""
        built = self.rehearsed() if image_names.REHEARSAL in labels else self
        return built.from_package_index() if image_names.FALLBACK in labels else built

    def rehearsed(self) -> Environment:
        """Return the rehearsal of this environment."""
        own = self.hardware
        if own.stand_in_for is None:
            return self.changed(on_stand_in=True)
        # it has the chips of other hardware, and drops the variables for machines without chips
        chips = self.matrix.hardware[own.stand_in_for]
        taken = {name: getattr(chips, name) for name in ("family", "provides", "soc", "devices", "run")}
        variables = {name: value for name, value in self.variables.items() if name not in own.variables}
        return self.changed(on_stand_in=True, hardware=own.changed(**taken), variables=variables)


def resolve(matrix: Matrix, coordinates: Coordinates, command_line: Mapping[str, str] | None = None) -> Environment:
    """Return the environment at these coordinates; the `command_line` pins override all layers."""
    return Environment(**cascade(matrix, coordinates, command_line))
