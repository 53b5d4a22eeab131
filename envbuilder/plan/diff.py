"""Compares two environments, as one does before an upgrade."""

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
    changes = [
        Change(section, name, old.get(name), new.get(name))
        for section, (old, new) in _sections(before, after).items()
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    ]
    # a layer that only one side has stands for its steps
    alone = {change.name for change in changes if change.section == "layers"}
    return [change for change in changes if change.section != "steps" or change.name.partition(": ")[0] not in alone]


def _sections(
    before: tuple[Environment, Plan], after: tuple[Environment, Plan]
) -> dict[str, tuple[Mapping[str, str], Mapping[str, str]]]:
    readers = {
        "pins": _pins,
        "variables": _variables,
        "lists": _lists,
        "paths": _paths,
        "layers": _layers,
        "steps": _steps,
        "known issues": _issues,
    }
    return {section: (read(*before), read(*after)) for section, read in readers.items()}


def _pins(environment: Environment, _: Plan) -> dict[str, str]:
    return {name: pin.full for name, pin in environment.pins.items()}


def _variables(environment: Environment, _: Plan) -> dict[str, str]:
    return {name: setting.value for name, setting in environment.variables.items()}


def _lists(environment: Environment, _: Plan) -> dict[str, str]:
    return {f"{name}: {value}": "yes" for name, listing in environment.lists.items() for value in listing.values}


def _paths(_: Environment, plan: Plan) -> dict[str, str]:
    return {
        tr("base image"): plan.base_image,
        **{tr("source {number}", number=number): path for number, path in enumerate(plan.shell_setup, 1)},
    }


def _layers(_: Environment, plan: Plan) -> dict[str, str]:
    built = {layer.title: "yes" for layer in plan.layers}
    return built | {item.title: tr("left out: {reason}", reason=item.reason) for item in plan.left_out}


def _steps(_: Environment, plan: Plan) -> dict[str, str]:
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


def _issues(environment: Environment, _: Plan) -> dict[str, str]:
    return {" ".join(issue.what.split()): "yes" for issue in environment.known_issues}
