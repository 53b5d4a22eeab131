"""Makes the plan of a project: the row's image, and one layer for each kind of addition."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from envbuilder.environment import Environment, image_names
from envbuilder.environment.additions import Additions
from envbuilder.environment.coordinates import USUAL_REGISTRY
from envbuilder.files import digest_of
from envbuilder.plan.plan import (
    ENVIRONMENT_STAGE,
    EXPECTED_CONFLICTS,
    FILES,
    PROJECT_LOCK,
    Inputs,
    Layer,
    Plan,
    SourceArchive,
    Stage,
    Step,
)
from envbuilder.plan.sources import kept_layers
from envbuilder.plan.system import system_packages

_CLEAR = "clear-source"


def project_plan(environment: Environment, additions: Additions, row: Plan, inputs: Inputs) -> Plan:
    """Return the plan of a project on the image that the plan of its row makes."""
    sources = inputs.sources if inputs.sources is not None else dict(_unpacked(additions))
    own = {name: sources[name] for name in additions.sources}
    files = {EXPECTED_CONFLICTS: row.files[EXPECTED_CONFLICTS] + "".join(_of_moved(environment, additions))}
    if additions.packages:
        files[PROJECT_LOCK] = "".join(item.text for item in additions.packages)
    base = environment.of_row.image_name(USUAL_REGISTRY)
    return replace(
        row,
        title=f"{additions.project}: {row.title}",
        base_image=base,
        pinned_base=None,
        tools=(),
        stages=(Stage(ENVIRONMENT_STAGE, None, tuple(_layers(environment, additions, own))),),
        variables={**row.variables, **additions.variables},
        labels={**row.labels, "org.opencontainers.image.base.name": base, **_labels(additions, own)},
        files=files,
        secrets=row.secrets,
        project=additions.project,
        row=row,
    )


def joined(row: Plan, own: Plan, components: Collection[str]) -> Plan:
    """Return the plans of a row and of a project as one, for a host, which has no image of the row.

    The row's plan has the project's own sources of these components already.
    """
    *before, last = row.stages
    layers = tuple(
        replace(layer, steps=tuple(map(_if_present, layer.steps)))
        if layer.steps[0].values.get("component") in components
        else layer
        for layer in last.layers
    )
    added = tuple(layer for layer in own.stages[-1].layers if layer.steps[0].kind != _CLEAR)
    return replace(
        own, stages=(*before, replace(last, layers=(*layers, *added))), files={**row.files, **own.files},
        base_image=row.base_image, tools=row.tools, project=None, row=None,
    )  # fmt: skip


def _layers(environment: Environment, additions: Additions, own: Mapping[str, SourceArchive]) -> Iterator[Layer]:
    yield from system_packages(environment, additions.system_packages)
    if additions.packages:
        install = Step("locked-wheels", {"file": PROJECT_LOCK, "indexes": ()})
        yield Layer("packages of the project", (install,), reads=(PROJECT_LOCK,))
    if additions.files:
        places = {target: f"{FILES}/{number}" for number, target in enumerate(additions.files.values(), 1)}
        yield Layer(
            "files of the project", (Step("place-files", {"files": places}),), only_in_images=True, reads=(FILES,)
        )
    for layer in kept_layers(environment, own):
        component = str(layer.steps[0].values["component"])
        steps = (Step(_CLEAR, {"component": component}), *map(_if_present, layer.steps))
        yield replace(layer, title=f"{layer.title} of the project", steps=steps)
    check = Step("pip-check", {"file": EXPECTED_CONFLICTS})
    yield Layer("consistency", (check,), reads=(EXPECTED_CONFLICTS,))


def _if_present(step: Step) -> Step:
    """Return a step for another state of the source tree, which may have the repair that the step makes."""
    return replace(step, kind="replace-text-if-present") if step.kind == "replace-text" else step


def _of_moved(environment: Environment, additions: Additions) -> Iterator[str]:
    """Yield patterns for the conflicts of packages of the row with those that the project moves on purpose."""
    for name in additions.moved:
        spelled = environment.distribution(name).replace("-", "[-_.]").replace("_", "[-_.]")
        yield f"^The package .[^ ]+. requires .{spelled}[^A-Za-z0-9_.-].*, but .[^ ]+ is installed\n"


def _unpacked(additions: Additions) -> Iterator[tuple[str, SourceArchive]]:
    """Yield descriptions of the project's source trees where they were not packed."""
    for name, source in additions.sources.items():
        yield name, SourceArchive(name, "git", source.commit or "unversioned", Path(f"{name}.tar.gz"), "", 0, ".")


def _labels(additions: Additions, own: Mapping[str, SourceArchive]) -> dict[str, str]:
    sources = {f"{image_names.SOURCE}{name}": f"{item.kind}:{item.reference}" for name, item in own.items()}
    files = {
        f"{image_names.PROJECT_SOURCE}{name}": f"sha256:{item.sha256}" for name, item in own.items() if item.sha256
    }
    return {
        "org.opencontainers.image.title": additions.project,
        image_names.PROJECT: additions.project,
        image_names.PROJECT_LOCK: additions.lock_digest,
        image_names.PROJECT_ADDITIONS: digest_of(repr(_described(additions)).encode()),
        **sources,
        **files,
    }


def _described(additions: Additions) -> tuple[object, ...]:
    return (sorted(additions.system_packages), sorted(additions.variables.items()), sorted(additions.files.items()))
