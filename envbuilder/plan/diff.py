"""Compares two environments, for example before an upgrade."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envbuilder.environment import Environment
from envbuilder.language import tr
from envbuilder.plan import Plan

# steps whose values are derived from the pins
_FOLLOW_PINS = {"system-packages", "exact-wheels", "wheels", "remove"}


@dataclass(frozen=True)
class Change:
    """A value that differs. `before` or `after` is None where only the other environment has it."""

    section: str
    name: str
    before: str | None
    after: str | None


def compare(before: tuple[Environment, Plan], after: tuple[Environment, Plan]) -> list[Change]:
    """Return all differences by section: pins, variables, lists, paths, layers, steps, known issues."""
    sections = zip(_sections(*before).items(), _sections(*after).values(), strict=True)
    changes = [
        Change(section, name, old.get(name), new.get(name))
        for (section, old), new in sections
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    ]
    # the steps of a layer that only one of the two has are not listed again
    alone = {change.name for change in changes if change.section == "layers"}
    return [change for change in changes if change.section != "steps" or change.name.partition(": ")[0] not in alone]


def added(environment: Environment) -> list[Change]:
    """Return what a project adds to its row, beside the pins that it moves."""
    own = environment.additions
    if own is None:
        return []
    moved = {environment.distribution(name) for name in own.moved}
    present = environment.lock.versions if environment.lock else {}
    return [
        *(
            Change("packages", name, present.get(name), version)
            for name, version in own.versions.items()
            if name not in moved
        ),
        *(Change("system packages", name, None, "yes") for name in own.system_packages),
        *(Change("variables", name, None, value) for name, value in own.variables.items()),
        *(Change("files", target, None, source) for source, target in own.files.items()),
        *(Change("sources", name, None, source.shown) for name, source in own.sources.items()),
    ]


def _sections(environment: Environment, plan: Plan) -> dict[str, dict[str, str]]:
    """Return the values to compare, by section and name."""
    sourced = {tr("source {number}", number=number): path for number, path in enumerate(plan.shell_setup, 1)}
    left_out = {item.title: tr("left out: {reason}", reason=item.reason) for item in plan.left_out}
    lists = environment.lists.items()
    return {
        "pins": {name: pin.full for name, pin in environment.pins.items()},
        "variables": {name: setting.value for name, setting in environment.variables.items()},
        "lists": {f"{name}: {value}": "yes" for name, listing in lists for value in listing.values},
        "paths": {tr("base image"): plan.base_image, **sourced},
        "layers": {**{layer.title: "yes" for layer in plan.layers}, **left_out},
        "steps": _steps(plan),
        "known issues": {tr(" ".join(issue.what.split())): "yes" for issue in environment.known_issues},
    }


def _steps(plan: Plan) -> dict[str, str]:
    """Return the values of the steps, without those that are derived from the pins."""
    found: dict[str, str] = {}
    for layer in plan.layers:
        for step in layer.steps:
            if step.kind in _FOLLOW_PINS:
                continue
            for name, value in step.values.items():
                items = value.items() if isinstance(value, Mapping) else [(name, value)]
                for key, item in items:
                    found[f"{layer.title}: {step.kind} {key}"] = item if isinstance(item, str) else " ".join(item)
    return found
