"""What changes between two environments: the question before every upgrade."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envbuilder.plan import Plan
from envbuilder.resolve import Environment


@dataclass(frozen=True)
class Change:
    """A value that differs. `before` or `after` is None where only the other environment has it."""

    section: str
    name: str
    before: str | None
    after: str | None


def compare(before: tuple[Environment, Plan], after: tuple[Environment, Plan]) -> list[Change]:
    """Every difference, by section: pins, variables, packages, paths, steps, known issues."""
    return [
        Change(section, name, old.get(name), new.get(name))
        for section, (old, new) in _sections(before, after).items()
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name)
    ]


def _sections(
    before: tuple[Environment, Plan], after: tuple[Environment, Plan]
) -> dict[str, tuple[Mapping[str, str], Mapping[str, str]]]:
    readers = {
        "pins": _pins,
        "variables": _variables,
        "lists": _lists,
        "paths": _paths,
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
        "base image": plan.base_image,
        **{f"source {number}": path for number, path in enumerate(plan.shell_setup, 1)},
    }


def _steps(_: Environment, plan: Plan) -> dict[str, str]:
    """Steps by layer and kind; the wheels are left to the pins."""
    found: dict[str, str] = {}
    for layer in plan.layers:
        for step in layer.steps:
            for name, value in step.values.items():
                if name in {"pins", "requirements", "wheels", "component", "version"} or step.kind == "system-packages":
                    continue
                items = value.items() if isinstance(value, Mapping) else [(None, value)]
                for key, item in items:
                    text = item if isinstance(item, str) else " ".join(item)
                    found[f"{layer.title}: {step.kind} {key or name}"] = text
    for missing in plan.left_out:
        found[f"{missing.title}: left out"] = missing.reason
    return found


def _issues(environment: Environment, _: Plan) -> dict[str, str]:
    return {" ".join(issue.what.split()): issue.workaround or "no workaround" for issue in environment.known_issues}
