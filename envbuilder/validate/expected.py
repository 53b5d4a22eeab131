"""What must be true of an environment, taken from the matrices: the suite asks the image for each of these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from envbuilder import versions
from envbuilder.environment.packages import distribution, is_wheel, packages_of
from envbuilder.environment.placeholders import reference_of, release_of
from envbuilder.environment.resolve import Environment
from envbuilder.lock.uv import locked_versions
from envbuilder.matrix import Matrix
from envbuilder.matrix.model import NPU, Component, Device
from envbuilder.plan import Plan, Source, make_plan
from envbuilder.requirements import normalize

_SOURCE_LABEL = "envbuilder.source."


@dataclass(frozen=True)
class Expected:
    """Plain data: the suite reads it as JSON in a process of its own."""

    environment: str
    is_image: bool
    # what the labels say, and what they should
    labels: Mapping[str, str]
    wanted_labels: Mapping[str, str]
    python: str
    # by distribution; the versions of source builds may have a label of their own, such as +cpu
    pins: Mapping[str, str]
    built: Mapping[str, str]
    locked: Mapping[str, str]
    removed: tuple[str, ...]
    # distributions whose files another one may have overwritten
    shared: tuple[str, ...]
    variables: Mapping[str, str]
    shell_setup: tuple[str, ...]
    # of the vendor, with the name of what would bring one that is not here
    libraries: Mapping[str, str | None]
    products: tuple[Mapping[str, str | None], ...]
    complaints: tuple[str, ...]
    modules: tuple[str, ...]
    left_out: Mapping[str, str]


def expected(
    matrix: Matrix, environment: Environment, labels: Mapping[str, str], device: Device, *, is_image: bool
) -> Expected:
    """`labels` are those of an image, or what an installation on a host says of itself."""
    plan = make_plan(matrix, environment)
    sources = _sources(labels)
    if sources.keys() >= set(plan.components):
        plan = make_plan(matrix, environment, sources)
    packages = packages_of(matrix, environment)
    removed = set(packages.removed)
    lock = matrix.lock_text(environment.id)
    left_out = {name for name in environment.pins if not is_wheel(matrix, name) and name not in plan.components}
    # a toolkit is of the image, a driver of the machine
    vendors = [item for item in matrix.components.values() if item.kind == "vendor" and item.name in environment.pins]
    there = [item for item in vendors if item.name in environment.hardware.provides or device == NPU]
    return Expected(
        environment=environment.id,
        is_image=is_image,
        labels=labels,
        wanted_labels={**_labels(plan), **dict(_source_labels(matrix, environment, sources))},
        python=packages.python,
        pins=dict(line.split("==") for line in _without_extras(packages.pins)),
        built=dict(_built(matrix, environment, left_out)),
        locked=locked_versions(lock) if lock else {},
        removed=packages.removed,
        shared=tuple(
            distribution(matrix, name)
            for name, component in matrix.components.items()
            if component.last and name in environment.pins and normalize(name) not in removed
        ),
        variables=dict(plan.variables),
        shell_setup=plan.shell_setup,
        libraries={library: None if item in there else item.title for item in vendors for library in item.libraries},
        products=tuple({"file": item.file, "links": item.links} for item in plan.products),
        complaints=plan.complaints,
        modules=tuple(dict.fromkeys(_modules(matrix, environment, left_out | removed))),
        left_out={item.title: item.reason for item in plan.left_out},
    )


def _sources(labels: Mapping[str, str]) -> dict[str, Source]:
    """What an image was built from, as far as its labels tell: enough to know what installers complain about."""
    found = {}
    for name, value in labels.items():
        if name.startswith(_SOURCE_LABEL):
            component, (form, _, reference) = name.removeprefix(_SOURCE_LABEL), value.partition(":")
            kind: Literal["git", "sdist"] = "git" if form == "git" else "sdist"
            found[component] = Source(component, kind, reference, Path(component), "", 0, ".")
    return found


def _labels(plan: Plan) -> dict[str, str]:
    return {name: plan.labels[name] for name in sorted(plan.labels) if not name.startswith(_SOURCE_LABEL)}


def _source_labels(
    matrix: Matrix, environment: Environment, sources: Mapping[str, Source]
) -> Iterator[tuple[str, str]]:
    """Either kind of source will do, as long as it is that of the row."""
    for name, source in sources.items():
        release = release_of(matrix, environment, name)
        if release is not None:
            yield f"{_SOURCE_LABEL}{name}", f"{source.kind}:{reference_of(release, source.kind)}"


def _without_extras(pins: tuple[str, ...]) -> Iterator[str]:
    for line in pins:
        name, _, version = line.partition("==")
        yield f"{name.partition('[')[0]}=={version}"


def _built(matrix: Matrix, environment: Environment, left_out: set[str]) -> Iterator[tuple[str, str]]:
    for name, pin in environment.pins.items():
        component = matrix.components.get(name)
        if component is not None and component.kind == "git" and name not in left_out:
            yield distribution(matrix, name), "" if component.own_version else versions.public(pin.version)


def _modules(matrix: Matrix, environment: Environment, without: set[str]) -> Iterator[str]:
    for name in environment.pins:
        component = matrix.components.get(name)
        if name in without or (component is not None and component.kind == "vendor"):
            continue
        if component is not None or is_wheel(matrix, name):
            yield from _names(name, component)
    recipe = matrix.recipes.get(environment.framework.name)
    if recipe is not None:
        yield recipe.trainer


def _names(name: str, component: Component | None) -> tuple[str, ...]:
    return (component.modules if component else ()) or (normalize(name).replace("-", "_"),)
