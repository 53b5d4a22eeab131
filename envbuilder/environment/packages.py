"""What an environment installs: packages of a package index, and the layers that are built from source."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING

from envbuilder import versions
from envbuilder.environment.cascade import ResolvedPin, Values
from envbuilder.environment.driver import TOOLKIT
from envbuilder.language import english
from envbuilder.matrix.model import Component, LayerSpec, Release, Submodule
from envbuilder.requirements import Requirement, normalize, parse

if TYPE_CHECKING:
    from envbuilder.environment import Environment


@dataclass(frozen=True)
class Packages:
    """The input of a resolver.

    Every pin is a requirement, so that the resolver must accept it; pins that contradict another requirement on
    purpose are also overrides.
    """

    python: str
    arch: str
    pins: tuple[str, ...]
    # normalized names by part of the lock; other packages are in the part `settled`
    parts: Mapping[str, tuple[str, ...]]
    requirements: tuple[str, ...]
    overrides: tuple[str, ...]
    removed: tuple[str, ...]
    indexes: Mapping[str, str]
    exclude_newer: str | None
    newer_packages: Mapping[str, str]

    @property
    def digest(self) -> str:
        """Return the digest of the input, which a lock records."""
        parts = [self.python, self.arch, self.exclude_newer or ""]
        for group in (self.pins, self.requirements, self.overrides, self.removed):
            parts += ["", *group]
        for table in (self.indexes, self.newer_packages):
            parts += ["", *(f"{name}={value}" for name, value in sorted(table.items()))]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def lines(self, names: Collection[str]) -> tuple[str, ...]:
        """Return the pins and requirements with these normalized names."""
        return tuple(line for line in (*self.pins, *self.requirements) if parse(line).name in names)

    def apart_from(self, names: Collection[str], requirements: Collection[str]) -> Packages:
        """Return the input without the packages with these normalized names, and with their requirements."""
        return replace(
            self,
            pins=tuple(line for line in self.pins if parse(line).name not in names),
            overrides=tuple(line for line in self.overrides if parse(line).name not in names),
            requirements=tuple(sorted({*self.requirements, *requirements})),
            removed=tuple(sorted({*self.removed, *names})),
            indexes={name: url for name, url in self.indexes.items() if normalize(name) not in names},
        )

    @property
    def extra_indexes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.indexes.values()))


@dataclass(frozen=True)
class Conflict:
    """A requirement of a component that the environment does not meet, on purpose or not."""

    owner: str
    requirement: Requirement
    # None if the environment removes the package
    pin: ResolvedPin | None


def source_components(environment: Values) -> list[tuple[Component, Release]]:
    """Return the pinned components that are built from source, with their releases in the compat tables."""
    found = []
    for name in environment.pins:
        component = environment.component(name)
        release = environment.release(name)
        is_built = component is not None and component.kind == "git" and not environment.is_wheel(name)
        if component is not None and is_built and release is not None:
            found.append((component, release))
    return found


def requirements_of(release: Release, environment: Values) -> list[Requirement]:
    """Return the requirements of a release, at run and build time, for the Python and machine of an environment."""
    python, arch = environment.version("python") or "", environment.coordinates.arch
    required = (*release.requires, *release.build_requires)
    return [item for item in map(parse, required) if item.applies(python, arch)]


def conflicts_of(environment: Values) -> list[Conflict]:
    """Return every unmet requirement of the components built from source."""
    return [
        conflict
        for component, release in source_components(environment)
        for conflict in _unmet(environment, component.name, requirements_of(release, environment))
    ]


def toolkit_conflicts_of(environment: Environment) -> list[Conflict]:
    """Return every unmet requirement of the toolkit, which no installer reads."""
    return list(_unmet(environment, TOOLKIT, toolkit_requirements(environment)))


def toolkit_requirements(environment: Environment) -> list[Requirement]:
    """Return what the compilers of the toolkit import; nothing for hardware without a toolkit."""
    release = environment.release(TOOLKIT) if TOOLKIT in environment.provides else None
    return requirements_of(release, environment) if release else []


def _unmet(environment: Values, owner: str, requirements: Iterable[Requirement]) -> Iterator[Conflict]:
    removed = environment.removed
    for requirement in requirements:
        pin = environment.pins.get(requirement.name)
        if requirement.name in removed:
            yield Conflict(owner, requirement, None)
        elif pin is not None and not requirement.allows(pin.version):
            yield Conflict(owner, requirement, pin)


def packages_of(environment: Environment) -> Packages:
    """Return the input of the resolver for an environment."""
    wanted = [parse(text) for text in environment.lists["requirements"].values]
    for _, release in source_components(environment):
        wanted += requirements_of(release, environment)
    wanted += toolkit_requirements(environment)
    removed = environment.removed
    pins = {
        name: _exact(environment.distribution(name), pin, wanted)
        for name, pin in environment.pins.items()
        if environment.is_wheel(name) and name not in removed
    }
    # a pin replaces all other requirements of its package, also if the package is built from source
    free = [item for item in wanted if item.name not in removed and item.name not in environment.pins]
    bounded = {item.name for item in free if item.specifier}
    build = [name for name in map(normalize, environment.lists["build_packages"].values) if name not in removed]
    heavy: dict[str, tuple[str, ...]] = {}
    for name in pins:
        component = environment.component(name)
        # a package that shares the folder of another, such as triton-ascend, is installed after it
        if component and component.heavy and not (component.last and removed.isdisjoint(component.modules)):
            heavy[name] = (name, *map(normalize, component.brings))
    torch = tuple(item for name in heavy if name in build for item in heavy[name])
    large = tuple(item for name in heavy if name not in build for item in heavy[name])
    contradicting = {item.pin.name for item in conflicts_of(environment) if item.pin is not None}
    contradicting |= {normalize(name) for name in environment.lists["force"].values}
    return Packages(
        python=environment.version("python") or "",
        arch=environment.coordinates.arch,
        pins=tuple(pins.values()),
        parts={
            "torch": torch,
            "build": tuple(name for name in build if name not in torch),
            "large": large,
            "pins": tuple(name for name in pins if name not in {*torch, *build, *large}),
        },
        requirements=tuple(sorted({item.unconditional for item in free if item.specifier or item.name not in bounded})),
        overrides=tuple(line for name, line in pins.items() if name in contradicting),
        removed=tuple(sorted(removed)),
        indexes={environment.distribution(name): url for name, url in environment.indexes.items() if name in pins},
        exclude_newer=environment.exclude_newer,
        newer_packages=dict(environment.newer_packages),
    )


def _exact(name: str, pin: ResolvedPin, wanted: list[Requirement]) -> str:
    """Return the pinned version with every extra that a requirement names: `ray[default]==2.46.0`."""
    extras = sorted({extra for item in wanted if item.name == pin.name for extra in item.extras})
    return f"{name}{'[' + ','.join(extras) + ']' if extras else ''}=={pin.on_index}"


@dataclass(frozen=True)
class LeftOut:
    """A layer that an environment leaves out, and the reason."""

    title: str
    reason: str


def built_components(environment: Environment) -> tuple[str, ...]:
    """Return the components that are built from source."""
    return tuple(dict.fromkeys(spec.component for spec in source_builds(environment)[0]))


def source_builds(environment: Environment) -> tuple[list[LayerSpec], list[LeftOut]]:
    """Return the layers of this environment, and those that are left out."""
    specs: list[LayerSpec] = []
    left_out: list[LeftOut] = []
    for spec in (*environment.engine.layers, *environment.framework.layers):
        is_built = spec.component in environment.pins and spec.component not in environment.lists["from_index"].values
        if not is_built or (spec.when is not None and not environment.holds(spec.when)):
            continue
        if any(other.title in spec.instead_of for other in specs):
            continue
        reason = _reason_against(spec, environment)
        if reason is None:
            specs.append(spec)
        elif reason:
            left_out.append(LeftOut(spec.title, reason))
    for name in dict.fromkeys(spec.component for spec in specs):
        left_out += [
            LeftOut(f"submodule {item.path} of {name}", _lacks([item.needs], environment))
            for item in unread_submodules(environment, name)
        ]
    return specs, left_out


def unread_submodules(environment: Environment, name: str) -> tuple[Submodule, ...]:
    """Return the submodules of a component that only layers which are left out would read."""
    return tuple(item for item in submodules_of(environment, name) if item.needs not in environment.provides)


def submodules_of(environment: Environment, name: str) -> tuple[Submodule, ...]:
    """Return the submodules that the matrices know of the pinned release of a component."""
    component, version = environment.component(name), environment.version(name)
    return tuple(
        item
        for item in (component.submodules if component and version else ())
        if item.versions is None or versions.satisfies(version or "", item.versions)
    )


def _reason_against(spec: LayerSpec, environment: Environment) -> str | None:
    """Return why a layer is left out; an empty text if the layer that it replaces has the same reason."""
    missing = [name for name in spec.needs if name not in environment.provides]
    if missing:
        return "" if spec.instead_of else _lacks(missing, environment)
    for text in spec.defined:
        if not environment.defines(text):
            named = {"component": spec.component, "version": environment.version(spec.component)}
            lacking = text.strip("${}").rpartition(".")[2]
            return english("{component} {version} has no {lacking}", **named, lacking=lacking)
    return None


def _lacks(missing: Sequence[str], environment: Environment) -> str:
    return english(
        "needs {missing}, which {provider} does not provide",
        missing=reduce(lambda one, other: english("{one} and {other}", one=one, other=other), missing),
        provider=environment.provider,
    )
