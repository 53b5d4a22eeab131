"""Chooses a recipe and decides its values for an environment, a number of devices and a number of nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import NamedTuple

from envbuilder import versions
from envbuilder.environment import Environment
from envbuilder.environment.trainer_arguments import bare, literal, merged
from envbuilder.errors import MatrixError, NoMatchError, UsageError
from envbuilder.language import tr
from envbuilder.launch.cards import check_number
from envbuilder.matrix.model import Preparation, Recipe, RecipePart
from envbuilder.quickstart.sizes import check_sizes

HOME = "/opt/envbuilder"
_PATHS = ("model", "data", "output")


class TrainingOptions(NamedTuple):
    """The user's changes to the documented training."""

    npus: int | None = None
    nodes: int = 1
    model: str | None = None
    data: str | None = None
    output: str | None = None
    settings: Mapping[str, str] = {}
    # whether to keep the document's values even where this release refuses them
    documented: bool = False
    # whether two devices shall draw the same samples, so that their runs can be compared
    reproducible: bool = False


@dataclass(frozen=True)
class Training:
    """A recipe with every value decided."""

    recipe: Recipe
    environment: Environment
    npus: int
    nodes: int
    data: str
    program: tuple[str, ...]
    submit: tuple[str, ...]
    prepare: Preparation | None
    settings: Mapping[str, str]
    variables: Mapping[str, str]
    sources: tuple[str, ...]
    # why some values differ from the document
    departures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    # how the samples of a reproducible run are drawn
    draws: str | None = None

    @property
    def spans(self) -> bool:
        """Whether devices of several nodes communicate with each other."""
        return self.nodes > 1 and self.environment.hardware.devices > 0

    @property
    def unsaved(self) -> str | None:
        """Return the setting by which no checkpoints are saved."""
        setting = self.recipe.save_setting
        return setting if setting and self.settings.get(setting) == "-1" else None

    @property
    def uses_ray(self) -> bool:
        """Whether Ray has to run before the trainer is started."""
        return self.nodes > 1 or self.recipe.always_ray


def training_of(environment: Environment, name: str | None, options: TrainingOptions) -> Training:
    """Return the training of a recipe for an environment, with every value decided."""
    recipe = _recipe(environment, name)
    if recipe.max_nodes is not None and options.nodes > recipe.max_nodes:
        raise UsageError(
            tr(
                "the recipe '{recipe}' runs on {nodes} node only: it is not started by Ray",
                recipe=recipe.recipe,
                nodes=recipe.max_nodes,
            )
        )
    npus = _npus(recipe, environment, options)
    parts = [part for part in recipe.parts if _applies(part, environment, npus, options)]
    draws = _draws(recipe, parts) if options.reproducible else None
    known = _known(recipe, environment, parts, npus, options)
    settings = _settings(recipe, parts, known, options)
    if not options.documented:
        check_sizes(recipe, environment, settings, npus, options.nodes)
    program = next((part.program for part in reversed(parts) if part.program), recipe.program)
    prepare = next((part.prepare for part in reversed(parts) if part.prepare), recipe.prepare)
    named = [recipe.source, *(part.source for part in parts)]
    return Training(
        recipe=recipe,
        environment=environment,
        npus=npus,
        nodes=options.nodes,
        data=known["data"],
        program=tuple(_filled(word, known, recipe) for word in program),
        submit=tuple(_filled(word, known, recipe) for word in recipe.submit),
        prepare=_prepared(prepare, known, recipe),
        settings=settings,
        variables=_variables(recipe, parts, known),
        sources=tuple(dict.fromkeys(recipe.sources.get(name, name) for name in named)),
        departures=tuple(" ".join(part.because.split()) for part in parts if part.because),
        notes=recipe.notes,
        draws=draws,
    )


def _recipe(environment: Environment, name: str | None) -> Recipe:
    recipes = environment.recipes
    found = next((item for item in recipes if (item.usual if name is None else item.recipe == name)), None)
    if found is None:
        names = ", ".join(sorted(item.recipe for item in recipes)) or tr("none")
        framework = environment.framework.title
        raise NoMatchError(
            tr("{framework} has no recipe '{name}'", framework=framework, name=name)
            if name
            else tr("{framework} has no recipe", framework=framework),
            hint=tr("it has: {names}", names=names),
        )
    name = found.recipe
    if found.engines and environment.engine.name not in found.engines:
        raise NoMatchError(
            tr(
                "the recipe '{name}' of {framework} is not for {engine}",
                name=name,
                framework=environment.framework.title,
                engine=environment.engine.title,
            ),
            hint=tr("it is for --engine {engines}", engines=tr(" or ").join(found.engines)),
        )
    if found.when and not environment.holds(found.when):
        raise NoMatchError(
            tr(
                "the recipe '{name}' is not for {branch} on {hardware}",
                name=name,
                branch=environment.branch.title,
                hardware=environment.hardware.title,
            ),
            hint=tr("it is for {condition}", condition=found.when.text),
        )
    return found


def _draws(recipe: Recipe, parts: Sequence[RecipePart]) -> str:
    found = [part.draws for part in parts if part.draws]
    if not found:
        raise NoMatchError(
            tr("the recipe '{name}' has no reproducible form for this environment", name=recipe.recipe),
            hint=tr("runs with other samples are compared too, with several runs a side: envbuilder compare --help"),
        )
    return " ".join(found[-1].split())


def _npus(recipe: Recipe, environment: Environment, options: TrainingOptions) -> int:
    """Return the number of NPUs that the user or the document wants: one, or those of whole cards."""
    hardware = environment.hardware
    taken = [part.take for part in recipe.parts if part.take and _applies(part, environment, None, options)]
    documented = taken[-1] if taken else recipe.npus
    npus = options.npus or (min(documented, hardware.devices) if hardware.devices else documented)
    check_number(hardware, npus)
    return npus


def _applies(part: RecipePart, environment: Environment, npus: int | None, options: TrainingOptions) -> bool:
    """Return whether a part of the recipe applies; `npus` is None while it is undecided."""
    if (options.documented and part.because) or (part.reproducible and not options.reproducible):
        return False
    numbers = ((part.npus, npus), (part.nodes, options.nodes))
    return (part.when is None or environment.holds(part.when)) and all(
        number is not None and versions.satisfies(str(number), condition) for condition, number in numbers if condition
    )


def _known(
    recipe: Recipe, environment: Environment, parts: Sequence[RecipePart], npus: int, options: TrainingOptions
) -> dict[str, str]:
    return {
        "model": options.model or next((part.model for part in reversed(parts) if part.model), recipe.model),
        "data": options.data or next((part.data for part in reversed(parts) if part.data), recipe.data),
        "output": options.output or recipe.output,
        "npus": str(npus),
        "nodes": str(options.nodes),
        "devices": str(npus * options.nodes),
        "device_numbers": ",".join(map(str, range(npus))),
        "engine": environment.engine.name,
        "source": f"{HOME}/src/{environment.framework.component}",
    }


def _settings(
    recipe: Recipe, parts: Sequence[RecipePart], known: Mapping[str, str], options: TrainingOptions
) -> dict[str, str]:
    """Return the settings of the trainer; those of the user keep their value, but take the recipe's spelling."""
    changes: list[Mapping[str, str | None]] = [{**dict.fromkeys(part.without), **part.settings} for part in parts]
    if options.output and recipe.output_setting:
        changes.append({recipe.output_setting: "${output}"})
    found = merged(recipe.settings, *changes)
    for key, value in found.items():
        text = _filled(value, known, recipe)
        found[key] = literal(recipe.style, text) if any(f"${{{name}}}" in value for name in _PATHS) else text
    spelled = {bare(key): key for key in found}
    return merged(found, {spelled.get(bare(key), key): value for key, value in options.settings.items()})


def _variables(recipe: Recipe, parts: Sequence[RecipePart], known: Mapping[str, str]) -> dict[str, str]:
    found = dict(recipe.variables)
    for part in parts:
        found |= part.variables
        for name in part.unset:
            found.pop(name, None)
    return {name: _filled(value, known, recipe) for name, value in found.items()}


def _prepared(prepare: Preparation | None, known: Mapping[str, str], recipe: Recipe) -> Preparation | None:
    if prepare is None:
        return None
    options = {name: _filled(value, known, recipe) for name, value in prepare.options.items()}
    program = f"{known['source']}/{prepare.program}"
    makes = _filled(prepare.makes, known, recipe)
    return Preparation(title=prepare.title, program=program, makes=makes, options=options)


def _filled(text: str, known: Mapping[str, str], recipe: Recipe) -> str:
    try:
        return Template(text).substitute(known)
    except (KeyError, ValueError) as error:
        raise MatrixError.of(
            tr("'{text}' has an unknown placeholder: {reason}", text=text, reason=error), recipe.where, None
        ) from error
