"""Derives from the matrices what must be true of an environment, for the suite to check."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from envbuilder import versions
from envbuilder.environment import Environment
from envbuilder.environment.image_names import SOURCE
from envbuilder.matrix.model import CPU, NPU, Component, Device
from envbuilder.plan import Plan, SourceArchive, make_plan
from envbuilder.requirements import normalize


@dataclass(frozen=True)
class Expected:
    """The expected state of an environment, as plain data: the suite reads it as JSON in a separate process."""

    environment: str
    is_image: bool
    # the labels that it has, and those that it should have
    labels: Mapping[str, str]
    wanted_labels: Mapping[str, str]
    python: str
    # versions by distribution; a source build may add a local label, such as +cpu
    pins: Mapping[str, str]
    built: Mapping[str, str]
    locked: Mapping[str, str]
    removed: tuple[str, ...]
    # distributions whose files another one may have overwritten
    shared: tuple[str, ...]
    variables: Mapping[str, str]
    shell_setup: tuple[str, ...]
    # libraries of the vendor; one that the target cannot have is given with the component that provides it
    libraries: Mapping[str, str | None]
    products: tuple[Mapping[str, str | None], ...]
    expected_conflicts: tuple[str, ...]
    modules: tuple[str, ...]
    # the expression for the device of the engine, and that device
    devices: Mapping[str, str]
    left_out: Mapping[str, str]


def expected(environment: Environment, labels: Mapping[str, str], device: Device, *, is_image: bool) -> Expected:
    """Return the expected state. `labels` are those of an image, or those recorded by an installation on a host."""
    plan = make_plan(environment)
    sources = _sources(labels)
    if sources.keys() >= set(plan.components):
        plan = make_plan(environment, sources)
    packages = environment.packages
    removed = set(packages.removed)
    lock = environment.lock
    left_out = {name for name in environment.pins if not environment.is_wheel(name) and name not in plan.components}
    # the toolkit belongs to the image, the driver to the machine
    pinned = [item for name in environment.pins if (item := environment.component(name))]
    vendors = [item for item in pinned if item.kind == "vendor"]
    present = [item for item in vendors if item.name in environment.provides or device != CPU]
    return Expected(
        environment=environment.id,
        is_image=is_image,
        labels=labels,
        wanted_labels={**_labels(plan), **dict(_source_labels(environment, sources))},
        python=packages.python,
        pins=dict(line.split("==") for line in _without_extras(packages.pins)),
        built=dict(_built(environment, left_out)),
        locked=lock.versions if lock else {},
        removed=packages.removed,
        shared=tuple(item.index_name for item in pinned if item.last and item.name not in removed),
        variables=dict(plan.variables),
        shell_setup=plan.shell_setup,
        libraries={library: None if item in present else item.title for item in vendors for library in item.libraries},
        products=tuple({"file": item.file, "links": item.links} for item in plan.products),
        expected_conflicts=plan.expected_conflicts,
        modules=tuple(dict.fromkeys(_modules(environment, left_out | removed, device))),
        devices={device_of: NPU} if (device_of := environment.engine.device_of) and device != CPU else {},
        left_out={item.title: item.reason for item in plan.left_out},
    )


def _sources(labels: Mapping[str, str]) -> dict[str, SourceArchive]:
    """Return the sources that the labels name; the plan derives the expected conflicts from them."""
    found = {}
    for name, value in labels.items():
        if name.startswith(SOURCE):
            component, (form, _, reference) = name.removeprefix(SOURCE), value.partition(":")
            kind: Literal["git", "sdist"] = "git" if form == "git" else "sdist"
            found[component] = SourceArchive(component, kind, reference, Path(component), "", 0, ".")
    return found


def _labels(plan: Plan) -> dict[str, str]:
    return {name: plan.labels[name] for name in sorted(plan.labels) if not name.startswith(SOURCE)}


def _source_labels(environment: Environment, sources: Mapping[str, SourceArchive]) -> Iterator[tuple[str, str]]:
    """Yield the expected labels of the sources: either kind of source will do if it is the release of the row."""
    for name, source in sources.items():
        release = environment.release(name)
        if release is not None:
            yield f"{SOURCE}{name}", f"{source.kind}:{release.reference(source.kind)}"


def _without_extras(pins: tuple[str, ...]) -> Iterator[str]:
    for line in pins:
        name, _, version = line.partition("==")
        yield f"{name.partition('[')[0]}=={version}"


def _built(environment: Environment, left_out: set[str]) -> Iterator[tuple[str, str]]:
    for name, pin in environment.pins.items():
        component = environment.component(name)
        if component is not None and component.kind == "git" and name not in left_out:
            yield environment.distribution(name), "" if component.own_version else versions.public(pin.version)


def _modules(environment: Environment, without: set[str], device: Device) -> Iterator[str]:
    for name in environment.pins:
        component = environment.component(name)
        if name in without or (component is not None and component.kind == "vendor"):
            continue
        if component is not None or environment.is_wheel(name):
            yield from _names(name, component)
    if environment.smoke_run is not None:
        yield environment.smoke_run.trainer
    if device != CPU:
        # most of these import the vendor's libraries
        yield from environment.used_modules.modules


def _names(name: str, component: Component | None) -> tuple[str, ...]:
    return (component.modules if component else ()) or (normalize(name).replace("-", "_"),)
