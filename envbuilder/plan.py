"""From an environment to the steps that make it. Every condition is decided here; what follows is text.

A plan is a list of layers in the order of how often they change: system packages, large wheels, the other
wheels, source builds, the framework, and at last what must not be undone by any of them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from envbuilder.errors import MatrixError, Problem, Where
from envbuilder.matrix import Matrix
from envbuilder.model import KnownIssue, LayerSpec, StepSpec, StepValue
from envbuilder.packages import Packages, conflicts, distribution, packages_of, removed_names
from envbuilder.resolve import Environment
from envbuilder.values import expand, is_defined, release_of

Value: TypeAlias = "str | tuple[str, ...] | Mapping[str, str]"


# the parts of a lock, as file names: a changed small package must not reinstall the large ones
LARGE, WHOLE = "large.txt", "whole.txt"


class Source(NamedTuple):
    """An archive of a component's source that lies ready."""

    component: str
    kind: Literal["git", "sdist"]
    reference: str
    archive: Path
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
    # the packages of a host belong to its administrator: a script names them, an image installs them
    only_in_images: bool = False
    # the part of the lock that the steps read: LARGE or WHOLE
    lock: str | None = None
    # the archive that they unpack, as a file name
    archive: str | None = None


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
    # how the large packages are told from the others in the lock
    split: Step
    layers: tuple[Layer, ...]
    left_out: tuple[LeftOut, ...]
    variables: Mapping[str, str]
    # scripts of the vendor that set up a shell, where the hardware has any
    shell_setup: tuple[str, ...]
    labels: Mapping[str, str]


def make_plan(matrix: Matrix, environment: Environment, sources: Mapping[str, Source] | None = None) -> Plan:
    """The plan of an environment. With `sources` nothing is fetched while building: every component lies ready."""
    hardware, packages = environment.hardware, packages_of(matrix, environment)
    tag = expand(hardware.base.tag, matrix, environment, hardware.base.where)
    base_image = f"{hardware.base.image}:{tag}"
    built: list[Layer] = []
    left_out: list[LeftOut] = []
    for spec in (*environment.engine.layers, *environment.framework.layers):
        if spec.when is not None and not environment.holds(spec.when):
            continue
        if any(name in hardware.provides for name in spec.without):
            continue  # an alternative for lesser hardware is no loss
        reason = _why_not(spec, matrix, environment)
        if reason is None:
            built.append(_source_layer(spec, matrix, environment, sources))
        else:
            left_out.append(LeftOut(spec.title, reason))
    lock = matrix.lock_text(environment.id)
    layers = (
        *_package_layers(environment, packages, is_locked=lock is not None),
        *built,
        *_closing_layers(matrix, environment, packages, sources or {}, is_locked=lock is not None),
    )
    return Plan(
        environment=environment.id,
        title=environment.title,
        base_image=base_image,
        python=packages.python,
        tools=tuple(f"{name}=={tool.version}" for name, tool in matrix.root.tools.items()),
        lock=lock,
        split=Step("split-lock", {"whole": WHOLE, "large": LARGE, "names": _large_names(packages)}),
        layers=layers,
        left_out=tuple(left_out),
        variables={name: setting.value for name, setting in environment.variables.items()},
        shell_setup=_shell_setup(built),
        labels=_labels(environment, base_image, packages, lock),
    )


# --- packages --------------------------------------------------------------------------------------------


def _package_layers(environment: Environment, packages: Packages, *, is_locked: bool) -> Iterator[Layer]:
    system = environment.lists["system_packages"].values
    if system:
        yield Layer("system packages", (Step("system-packages", {"packages": system}),), only_in_images=True)
    if packages.heavy:
        yield _large_wheels("large wheels", packages, packages.heavy, is_locked=is_locked)
    if is_locked:
        yield Layer("wheels", (_locked(WHOLE, packages),), lock=WHOLE)
    else:
        wheels: dict[str, Value] = {
            "requirements": (*packages.pins, *packages.requirements),
            "overrides": packages.overrides,
            "indexes": packages.extra_indexes,
        }
        yield Layer("wheels", (Step("wheels", wheels),))


def _locked(part: str, packages: Packages) -> Step:
    return Step("locked-wheels", {"file": part, "indexes": packages.extra_indexes})


def _large_wheels(title: str, packages: Packages, lines: tuple[str, ...], *before: Step, is_locked: bool) -> Layer:
    if is_locked:
        return Layer(title, (*before, _locked(LARGE, packages)), lock=LARGE)
    return Layer(title, (*before, Step("exact-wheels", {"wheels": lines, "indexes": packages.extra_indexes})))


def _large_names(packages: Packages) -> str:
    """An extended regular expression for the first line of a large package in a lock."""
    names = "|".join(line.partition("==")[0].partition("[")[0].replace(".", "[.]") for line in packages.heavy)
    return f"^({names})==" if names else "^$"


def _closing_layers(
    matrix: Matrix, environment: Environment, packages: Packages, sources: Mapping[str, Source], *, is_locked: bool
) -> Iterator[Layer]:
    removed_too = removed_names(environment)
    last = [
        name
        for name in environment.pins
        if name not in removed_too and name in matrix.components and matrix.components[name].last
    ]
    lines = {line for name in last for line in packages.pins if line.startswith(f"{distribution(matrix, name)}==")}
    removed = (*packages.removed, *(distribution(matrix, name) for name in last))
    remove = (Step("remove", {"packages": removed}),) if removed else ()
    again = (*(line for line in packages.heavy if line not in lines), *sorted(lines))
    if again:
        yield _large_wheels("what must not be overwritten", packages, again, *remove, is_locked=is_locked)
    elif remove:
        yield Layer("what must not be there", remove)
    yield Layer("consistency", (Step("pip-check", {"allowed": _allowed(matrix, environment, sources)}),))


def _allowed(matrix: Matrix, environment: Environment, sources: Mapping[str, Source]) -> tuple[str, ...]:
    """The complaints of `pip check` that this row means, as extended regular expressions."""
    found = {"^No broken requirements found": None}
    for removed in sorted(removed_names(environment)):
        found[f"^[^ ]+ [^ ]+ requires {_any_spelling(removed)}, which is not installed"] = None
    for name in environment.pins:
        component = matrix.components.get(name)
        if component is not None and component.wrong_platform_tag:
            found[f"^{_any_spelling(distribution(matrix, name))} [^ ]+ is not supported on this platform"] = None
    for source in sources.values():
        archive = matrix.components[source.component].sdist
        if source.kind == "sdist" and archive is not None and archive.foreign_metadata:
            found[f"^{_any_spelling(distribution(matrix, source.component))} [^ ]+ (requires|has requirement) "] = None
    for forced in environment.lists["force"].values:
        name = _any_spelling(forced)
        found[f"^[^ ]+ [^ ]+ has requirement {name}[^A-Za-z0-9_.-].*, but you have {name} "] = None
    for conflict in conflicts(matrix, environment):
        if conflict.pin is not None:
            owner, name = (
                _any_spelling(distribution(matrix, conflict.owner)),
                _any_spelling(conflict.requirement.name),
            )
            found[f"^{owner} [^ ]+ has requirement {name}.*, but you have {name} "] = None
    return tuple(found)


def _any_spelling(name: str) -> str:
    return "[-_.]".join(re.escape(part) for part in re.split(r"[-_.]", name))


# --- source builds ---------------------------------------------------------------------------------------


def _why_not(spec: LayerSpec, matrix: Matrix, environment: Environment) -> str | None:
    provided = environment.hardware.provides
    missing = [name for name in spec.needs if name not in provided]
    if missing:
        return f"needs {' and '.join(missing)}, which {environment.hardware.title} does not provide"
    for text in spec.defined:
        if not is_defined(text, matrix, environment):
            component = spec.component or ""
            return f"{component} {environment.version(component)} has no {text.strip('${}').rpartition('.')[2]}"
    return None


def _source_layer(
    spec: LayerSpec, matrix: Matrix, environment: Environment, sources: Mapping[str, Source] | None
) -> Layer:
    name = spec.component
    source = sources[name] if sources is not None and name is not None else None
    steps: list[Step] = []
    if name is not None:
        steps.append(_unpack(source) if source else _fetch(spec, name, matrix, environment))
        steps += [_patch(issue) for issue in environment.known_issues if _concerns(issue, name)]
    form = source.kind if source else "git"
    steps += [_filled(step, spec, matrix, environment) for step in spec.steps if step.only_from in {None, form}]
    if name is not None and not spec.keep_source:
        steps.append(Step("clean", {"component": name}))
    return Layer(spec.title, tuple(steps), archive=source.archive.name if source else None)


def _unpack(source: Source) -> Step:
    values = {"component": source.component, "archive": source.archive.name, "into": source.into}
    return Step("unpack", {**values, "strip": str(source.strip)})


def components_to_build(matrix: Matrix, environment: Environment) -> list[str]:
    """The components whose source a build of this environment needs."""
    titles = {layer.title for layer in make_plan(matrix, environment).layers}
    specs = (*environment.engine.layers, *environment.framework.layers)
    return list(dict.fromkeys(spec.component for spec in specs if spec.component and spec.title in titles))


def _fetch(spec: LayerSpec, name: str, matrix: Matrix, environment: Environment) -> Step:
    component, release = matrix.components.get(name), release_of(matrix, environment, name)
    if component is None or component.repository is None or release is None or release.commit is None:
        raise MatrixError(
            [
                Problem(
                    spec.where,
                    f"'{name}' {environment.version(name)} has no repository and commit to build from",
                )
            ]
        )
    return Step("fetch", {"component": name, "repository": component.repository, "commit": release.commit})


def _concerns(issue: KnownIssue, component: str) -> bool:
    return issue.patch is not None and issue.patch.component == component


def _patch(issue: KnownIssue) -> Step:
    assert issue.patch is not None  # noqa: S101  _concerns asked
    return Step(
        "patch",
        {"component": issue.patch.component, "file": issue.patch.file, "line": issue.patch.comment_out},
    )


def _filled(step: StepSpec, layer: LayerSpec, matrix: Matrix, environment: Environment) -> Step:
    def fill(value: StepValue) -> Value:
        if isinstance(value, str):
            return expand(value, matrix, environment, step.where)
        if isinstance(value, tuple):
            return tuple(expand(item, matrix, environment, step.where) for item in value)
        # an empty value means that the variable must not be set
        filled = {name: expand(item, matrix, environment, step.where) for name, item in value.items()}
        return {name: item for name, item in filled.items() if item}

    values = {name: fill(value) for name, value in step.with_.items()}
    return Step(step.kind, {**({"component": layer.component} if layer.component else {}), **values}, step.where)


def _shell_setup(layers: list[Layer]) -> tuple[str, ...]:
    """What the builds had to source, a user's shell must source too."""
    found: dict[str, None] = {}
    for step in (step for layer in layers for step in layer.steps):
        scripts = step.values.get("scripts", ())
        if isinstance(scripts, tuple):
            found.update(dict.fromkeys(scripts))
    return tuple(found)


def _labels(environment: Environment, base_image: str, packages: Packages, lock: str | None) -> dict[str, str]:
    framework = environment.pins[environment.framework.component]
    labels = {
        "org.opencontainers.image.title": environment.id,
        "org.opencontainers.image.version": framework.version,
        "org.opencontainers.image.base.name": base_image,
        "envbuilder.environment": environment.id,
        "envbuilder.inputs": f"sha256:{packages.digest}",
    }
    if lock is not None:
        labels["envbuilder.lock"] = f"sha256:{hashlib.sha256(lock.encode()).hexdigest()}"
    return labels
