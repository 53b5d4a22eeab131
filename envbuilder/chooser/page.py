"""Makes the page from the data of all environments, best first, and from texts that many of them share."""

from __future__ import annotations

import json
from typing import Any

from envbuilder import versions
from envbuilder.environment import Catalog, Environment
from envbuilder.environment.coordinates import USUAL_REGISTRY
from envbuilder.environment.driver import DRIVER, TOOLKIT
from envbuilder.environment.proof import PROVES
from envbuilder.errors import EnvbuilderError
from envbuilder.launch import CLUSTER, FORMS
from envbuilder.launch.container import ContainerOptions, Launch, needs_elsewhere, needs_in_cluster
from envbuilder.launch.k8s import name_of
from envbuilder.machine.fit import is_published_for, runs_with
from envbuilder.matrix.model import NPU
from envbuilder.plan import make_plan
from envbuilder.quickstart.choose import TrainingOptions, training_of
from envbuilder.quickstart.script import DEFAULT_WORK, WORK, script
from envbuilder.quickstart.steps import ClusterNetwork, steps_of
from envbuilder.render.page import render_page
from envbuilder.validate.smoke.job import backends

_TRAINING = "training"


class _Shared:
    """Values that rows share, without duplicates; a row has the number of its value."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[str, int] = {}

    def number(self, value: Any) -> int:
        key = json.dumps(value)
        if key not in self._numbers:
            self._numbers[key] = len(self.values)
            self.values.append(value)
        return self._numbers[key]


def chooser(catalog: Catalog, *, in_site: bool = False) -> str:
    """Return the page as HTML; in the site, it links to the other pages."""
    content = {**page_data(catalog), "site": in_site}
    data = json.dumps(content, ensure_ascii=False, separators=(",", ":")).replace("</", "<\\/")
    return render_page("chooser.html.j2", data=data)


def page_data(catalog: Catalog) -> dict[str, Any]:
    lines, texts, pins, issues, drivers = (_Shared() for _ in range(5))
    known = sorted((release.version for release in catalog.components[DRIVER].releases), key=versions.key)
    rows = [
        {
            **_row(item),
            "pins": pins.number({name: pin.full for name, pin in item.pins.items()}),
            "issues": [issues.number([" ".join(found.what.split()), found.workaround]) for found in item.known_issues],
            "fits": drivers.number([_fit(item, version) for version in known]),
            "texts": {
                name: texts.number([lines.number(line) for line in text.splitlines()])
                for name, text in _texts(item).items()
            },
        }
        for item in sorted(catalog.environments, key=lambda item: item.rank, reverse=True)
    ]
    return {
        "rows": rows,
        "lines": lines.values,
        "texts": texts.values,
        "pins": pins.values,
        "issues": issues.values,
        "fits": drivers.values,
        "drivers": known,
        "levels": dict(PROVES),
        "hardware": {name: _hardware(catalog, name) for name in catalog.hardware},
        "titles": {
            **{name: item.title for name, item in catalog.frameworks.items()},
            **{name: item.title for name, item in catalog.engines.items()},
        },
    }


def _hardware(catalog: Catalog, name: str) -> dict[str, Any]:
    hardware = catalog.hardware[name]
    family = catalog.chips.families[hardware.family] if hardware.has_npus else None
    return {
        "title": hardware.title,
        "names": list(hardware.aliases),
        "arches": list(hardware.arches),
        "products": {
            name: [item.title, list(item.arches or hardware.arches), item.devices]
            for name, item in hardware.products.items()
        },
        "chips": list(family.chips) if family else [],
    }


def _row(environment: Environment) -> dict[str, Any]:
    where = environment.coordinates
    return {
        "id": environment.id,
        "at": [where.hardware, where.arch, where.framework, where.branch, where.engine],
        "image": environment.image_name(USUAL_REGISTRY),
        "base": make_plan(environment).base_image,
        "level": environment.proven,
        "locked": environment.rank.is_locked,
        "cann": environment.version(TOOLKIT) if TOOLKIT in environment.hardware.provides else None,
        "least": least.version if (least := environment.least_driver) else None,
        "backends": list(backends(environment, NPU, "engine")),
    }


def _fit(environment: Environment, driver: str) -> int:
    """Return 2 if the toolkit is published for a driver, or for older ones, 1 if it runs with it, and 0 otherwise."""
    if not environment.hardware.has_npus:
        return 2
    return 1 + is_published_for(environment, driver) if runs_with(environment, driver) else 0


def _texts(environment: Environment) -> dict[str, str]:
    """Return the printed forms of an environment; its names are placeholders, as many environments share the rest."""
    made = {form: _container(environment, form) for form in FORMS}
    for recipe in environment.recipes:
        if (recipe.usual or recipe.backend) and (training := _training(environment, recipe.recipe)):
            made[f"{_TRAINING}-{recipe.backend}" if recipe.backend else _TRAINING] = training
    return {name: _with_placeholders(text, environment) for name, text in made.items()}


def _with_placeholders(text: str, environment: Environment) -> str:
    names = {
        "{image}": environment.image_name(USUAL_REGISTRY),
        "{id}": environment.id,
        "{name}": name_of(environment.id),
    }
    for placeholder, name in names.items():
        text = text.replace(name, placeholder)
    return text.rstrip("\n")


def _container(environment: Environment, form: str) -> str:
    options = ContainerOptions()
    needs = (needs_in_cluster if form == CLUSTER else needs_elsewhere)(environment, options)
    image = environment.image_name(USUAL_REGISTRY)
    launch = Launch(image, environment.coordinates.arch, needs, environment.id, stdin=True, terminal=True)
    return FORMS[form](launch)


def _training(environment: Environment, recipe: str) -> str | None:
    try:
        training = training_of(environment, recipe, TrainingOptions())
    except EnvbuilderError:
        # the recipe is not for this environment
        return None
    work = f"./{DEFAULT_WORK}"
    more = [("--volume", f"{work}:{WORK}"), ("--env", f"HOME={WORK}")]
    steps = steps_of(training, ClusterNetwork(), environment.image_name(USUAL_REGISTRY), more)
    return script(training, steps, work)
