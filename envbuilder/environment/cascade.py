"""Computes every value of an environment from its coordinates, with the layers that each value came through.

The cascade, lowest first: engine, framework, branch, the branch's row for the engine, hardware, arch, overrides
whose conditions hold, workarounds of known issues, command line. A scalar or a list replaces the one below; a list
with `append` extends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from envbuilder import versions
from envbuilder.environment.additions import Additions
from envbuilder.environment.coordinates import Coordinates
from envbuilder.errors import NoMatchError, UsageError, Where
from envbuilder.language import tr
from envbuilder.matrix import Matrix
from envbuilder.matrix.model import (
    Append,
    Branch,
    Component,
    Engine,
    EnvironmentEvidence,
    Evidence,
    Framework,
    Hardware,
    Items,
    KnownIssue,
    Pin,
    Release,
    RunSpec,
    Setting,
    Settings,
    System,
    When,
)
from envbuilder.matrix.record import Record

LISTS = ("system_packages", "requirements", "build_packages", "remove", "force", "without", "from_index")
_COMMAND_LINE = "command line"
# titles of the layers of a row
_ROW = ("branch ", "row ")


class Origin(NamedTuple):
    """The value that one layer sets."""

    layer: str
    text: str
    where: Where


class ResolvedPin(NamedTuple):
    name: str
    version: str
    source: str
    trail: tuple[Origin, ...]
    documented: str | None = None
    because: str | None = None
    local: str | None = None

    @property
    def full(self) -> str:
        """Return the version with its local label: 2.5.1+cpu."""
        return f"{self.version}+{self.local}" if self.local else self.version

    @property
    def on_index(self) -> str:
        """Return the full version as package indexes spell it, without a leading v."""
        return self._replace(version=versions.public(self.version)).full

    @property
    def where(self) -> Where:
        return self.trail[-1].where

    @property
    def is_tried(self) -> bool:
        """Return whether the version is from the command line."""
        return self.source == _COMMAND_LINE


class ResolvedSetting(NamedTuple):
    name: str
    value: str
    source: str
    trail: tuple[Origin, ...]
    because: str | None = None


class ResolvedList(NamedTuple):
    values: tuple[str, ...] = ()
    trail: tuple[Origin, ...] = ()


class Values(Record):
    """All values of one environment after the cascade. `Environment` adds the values derived from them."""

    coordinates: Coordinates
    framework: Framework
    branch: Branch
    engine: Engine
    hardware: Hardware
    run: RunSpec | None
    pins: Mapping[str, ResolvedPin]
    variables: Mapping[str, ResolvedSetting]
    lists: Mapping[str, ResolvedList]
    indexes: Mapping[str, str]
    exclude_newer: str | None
    newer_packages: Mapping[str, str]
    known_issues: tuple[KnownIssue, ...]
    evidence: tuple[Evidence, ...]
    where: Where
    # whether it is a rehearsal
    on_stand_in: bool = False
    # the packages of other indexes that are replaced by builds of the package index
    replaced: tuple[str, ...] = ()
    # what a project adds to it
    additions: Additions | None = None
    # read only in this package: releases, locks and recipes are decoded on first use
    matrix: Matrix

    @property
    def id(self) -> str:
        return self.coordinates.id

    def version(self, pin: str) -> str | None:
        return self.pins[pin].version if pin in self.pins else None

    def holds(self, when: When) -> bool:
        """Return whether a condition of the matrices is true for this environment."""
        return _holds(when, self.coordinates, self.hardware.family, self.pins)

    def component(self, name: str) -> Component | None:
        return self.matrix.components.get(name)

    def release(self, name: str) -> Release | None:
        """Return the release of a component that this environment pins, if the compat tables have it."""
        pin, component = self.pins.get(name), self.component(name)
        return component.release(pin.version) if pin and component else None

    def distribution(self, name: str) -> str:
        """Return the name of a component on the package index."""
        component = self.component(name)
        return component.index_name if component else name.replace("_", "-")

    def is_wheel(self, name: str) -> bool:
        """Return whether a pin comes from a package index, as every package without a compat table does."""
        component = self.component(name)
        return component is None or component.kind == "wheel" or name in self.lists["from_index"].values

    @property
    def system(self) -> System | None:
        """Return the operating system of the base image, if there is a choice."""
        names = self.hardware.systems
        return self.matrix.root.systems[self.coordinates.system or names[0]] if names else None

    @property
    def removed(self) -> frozenset[str]:
        """Return the normalized names of the packages that this environment must not have."""
        # this imports packaging, which takes long
        from envbuilder.requirements import normalize

        return frozenset(normalize(name) for name in self.lists["remove"].values)


class _Layer(NamedTuple):
    title: str
    settings: Settings
    sources: Mapping[str, str]


def cascade(matrix: Matrix, coordinates: Coordinates, command_line: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the fields of Values at these coordinates; the `command_line` pins override all layers."""
    branch = matrix.branch(coordinates.framework, coordinates.branch)
    framework, engine = matrix.frameworks[branch.framework], matrix.engines[coordinates.engine]
    hardware, row = _hardware(matrix, coordinates), branch.engines[coordinates.engine]
    shared = () if not hardware.has_npus else (matrix.host.image, matrix.host.arches.get(coordinates.arch, Settings()))
    host = (_Layer("host", settings, matrix.host.sources) for settings in shared)
    layers = [
        _Layer(f"engine {engine.name}", engine, engine.sources),
        _Layer(f"framework {framework.name}", framework, framework.sources),
        *host,
        _Layer(f"branch {branch.name}", branch, branch.sources),
        _Layer(f"row {branch.name} {engine.name}", row, branch.sources),
        _Layer(f"hardware {hardware.name}", hardware, hardware.sources),
        _Layer(f"arch {coordinates.arch}", hardware.arches[coordinates.arch], hardware.sources),
    ]
    layered = _Cascade(coordinates, hardware)
    for layer in layers:
        layered.apply(layer)
    for owner in (engine, framework, branch, hardware):
        for override in owner.overrides:
            if layered.holds(override.when):
                layered.apply(_Layer(f"override of {owner.name}", override, owner.sources))
    issues = tuple(issue for issue in branch.known_issues if issue.when is None or layered.holds(issue.when))
    for issue in issues:
        if issue.variables and not issue.opt_in:
            layered.apply(_Layer("workaround", Settings(variables=issue.variables), branch.sources))
    layered.apply_command_line(command_line or {})
    return {
        "coordinates": coordinates,
        "framework": framework,
        "branch": branch,
        "engine": engine,
        "hardware": hardware,
        "run": _run(matrix, hardware),
        "pins": {name: pin._replace(local=layered.local.get(name)) for name, pin in sorted(layered.pins.items())},
        "variables": dict(sorted(layered.variables.items())),
        "lists": layered.lists,
        "indexes": layered.indexes,
        "exclude_newer": layered.exclude_newer,
        "newer_packages": layered.newer_packages,
        "known_issues": issues,
        "evidence": matrix.evidence.get(coordinates.folder, EnvironmentEvidence()).evidence,
        "where": row.where,
        "matrix": matrix,
    }


def _run(matrix: Matrix, hardware: Hardware) -> RunSpec | None:
    run = hardware.run or (matrix.host.run if hardware.has_npus else None)
    return run.changed(mounts=(*run.mounts, *hardware.mounts)) if run else None


def _hardware(matrix: Matrix, coordinates: Coordinates) -> Hardware:
    """Return the hardware with the number of devices of a product, and with the title of one that a user named."""
    hardware = matrix.hardware[coordinates.hardware]
    named = hardware.products.get(coordinates.product or "")
    product = named or next((item for item in hardware.products.values() if coordinates.arch in item.arches), None)
    devices = product.devices if product else None
    return hardware.changed(devices=devices or hardware.devices, title=(named or hardware).title)


class _Cascade:
    """The values after the layers that are already applied."""

    def __init__(self, coordinates: Coordinates, hardware: Hardware) -> None:
        self.coordinates = coordinates
        self.hardware = hardware
        self.pins: dict[str, ResolvedPin] = {}
        self.variables: dict[str, ResolvedSetting] = {}
        self.lists: dict[str, ResolvedList] = {name: ResolvedList() for name in LISTS}
        self.local: dict[str, str] = {}
        self.indexes: dict[str, str] = {}
        self.exclude_newer: str | None = None
        self.newer_packages: dict[str, str] = {}

    def apply(self, layer: _Layer) -> None:
        for name, pin in layer.settings.pins.items():
            self.pins[name] = self._pin_over(self.pins.get(name), name, pin, layer)
        for name, setting in layer.settings.variables.items():
            self.variables[name] = self._set(name, setting, layer)
        for name in LISTS:
            self.lists[name] = _extended(self.lists[name], getattr(layer.settings, name), layer)
        for name in self.lists["without"].values:
            self.pins.pop(name, None)
            self.variables.pop(name, None)
        self.local.update(layer.settings.local_versions)
        self.indexes.update(layer.settings.indexes)
        self.newer_packages.update(layer.settings.newer_packages)
        self.exclude_newer = layer.settings.exclude_newer or self.exclude_newer

    def _pin_over(self, below: ResolvedPin | None, name: str, pin: Pin, layer: _Layer) -> ResolvedPin:
        documented = pin.documented
        if documented is None and below and below.trail[-1].layer.startswith(_ROW) and not layer.title.startswith(_ROW):
            # a CPU environment with another Python still shows the version in the document of the row
            documented = below.documented or (None if versions.same(below.version, pin.version) else below.version)
        return ResolvedPin(
            name=name,
            version=pin.version,
            source=layer.sources.get(pin.source, pin.source),
            trail=(*(below.trail if below else ()), Origin(layer.title, pin.version, pin.where)),
            documented=documented,
            because=" ".join(pin.because.split()) if pin.because else None,
        )

    def _set(self, name: str, setting: Setting, layer: _Layer) -> ResolvedSetting:
        below = self.variables.get(name)
        trail = (*(below.trail if below else ()), Origin(layer.title, setting.value, setting.where))
        return ResolvedSetting(
            name, setting.value, layer.sources.get(setting.source, setting.source), trail, setting.because
        )

    def apply_command_line(self, pins: Mapping[str, str]) -> None:
        for name, version in pins.items():
            if name not in self.pins:
                raise UsageError(
                    tr("'{environment}' has no pin '{name}'", environment=self.coordinates.id, name=name),
                    hint=tr("it has: {names}", names=", ".join(sorted(self.pins))),
                )
            # without a reason, which would turn an error into a warning
            pin = Pin(version=version, source=_COMMAND_LINE, where=Where("--pin"))
            self.apply(_Layer(_COMMAND_LINE, Settings(pins={name: pin}), {}))

    def holds(self, when: When) -> bool:
        return _holds(when, self.coordinates, self.hardware.family, self.pins)


def _holds(when: When, coordinates: Coordinates, family: str, pins: Mapping[str, ResolvedPin]) -> bool:
    dimensions = (
        (when.framework, coordinates.framework),
        (when.branch, coordinates.branch),
        (when.engine, coordinates.engine),
        (when.hardware, coordinates.hardware),
        (when.family, family),
        (when.arch, coordinates.arch),
    )
    return all(value in wanted for wanted, value in dimensions if wanted) and all(
        name in pins and versions.satisfies(pins[name].version, condition) for name, condition in when.pins.items()
    )


def _extended(below: ResolvedList, items: Items, layer: _Layer) -> ResolvedList:
    if not isinstance(items, Append):
        origin = Origin(layer.title, "= " + ", ".join(items), getattr(layer.settings, "where", Where(layer.title)))
        return ResolvedList(items, (*below.trail, origin))
    if not items.append:
        return below
    origin = Origin(layer.title, "+ " + ", ".join(items.append), items.where)
    return ResolvedList(tuple(dict.fromkeys((*below.values, *items.append))), (*below.trail, origin))


def value_named(environment: Values, name: str) -> ResolvedPin | ResolvedSetting | ResolvedList:
    """Return a pin, a variable or a list. Pins may be spelled with dashes."""
    # this imports packaging, which takes long
    from envbuilder.requirements import normalize

    wanted = normalize(name)
    values: dict[str, ResolvedPin | ResolvedSetting | ResolvedList] = {
        **environment.pins,
        **environment.variables,
        **environment.lists,
    }
    known = {key: value for key, value in values.items() if value.trail}
    for key, value in known.items():
        if key.lower() == wanted:
            return value
    raise NoMatchError(
        tr("'{environment}' has no value '{name}'", environment=environment.id, name=name),
        hint=tr("it has: {names}", names=", ".join(sorted(known))),
    )
