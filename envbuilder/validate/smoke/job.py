"""Makes the job of a smoke run: the recipe of a framework, filled in for an environment, a device and a depth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from string import Template
from typing import Any

from envbuilder.environment import Environment
from envbuilder.environment.trainer_arguments import merged, words_of
from envbuilder.errors import MatrixError
from envbuilder.matrix.model import CPU, NPU, STAND_IN, Depth, Device, SmokeRun, SmokeRunPart

# Ray schedules by resources, and a run needs the same number of processes on few cores as on many
_RAY_CPUS = 64
_TEST_ROWS = 16


@dataclass(frozen=True)
class Place:
    """The folders of a run: that of the code, and that of its files."""

    code: str
    folder: str


@dataclass(frozen=True)
class Job:
    """The input of `inside/train.py`, and the details of the run for the report."""

    device: Device
    depth: Depth
    # None for the usual one of the framework
    backend: str | None
    engine: str
    # words in its log that show that not its own model generated
    fallbacks: tuple[str, ...]
    devices: int
    rollout: str
    # the most that the probabilities of the engine and of the trainer may differ by; None if they are not compared
    probability_limit: float | None
    # code of envbuilder that takes part where the upstream code cannot
    ours: tuple[str, ...]
    settings: Mapping[str, str]
    variables: Mapping[str, str]
    unset: tuple[str, ...]
    recipe: SmokeRun
    place: Place

    def document(self) -> dict[str, Any]:
        recipe = self.recipe
        return {
            "trainer": recipe.trainer,
            "engine": self.engine,
            "devices": self.devices,
            "folder": self.place.folder,
            "assets": {
                "seed": recipe.seed,
                "train_rows": _rows(recipe),
                "test_rows": _TEST_ROWS,
            },
            "cpus": _RAY_CPUS,
            "resources": {"NPU": self.devices} if recipe.ray else None,
            "variables": dict(self.variables),
            "unset": self.unset,
            "arguments": [word for item in self.settings.items() for word in words_of(recipe.style, *item)],
        }


def obstacle(environment: Environment, device: Device, devices: int) -> str | None:
    """Return why an environment has no smoke run on these devices, or None if it has one."""
    title, recipe = environment.framework.title, environment.smoke_run
    if recipe is None:
        return f"{title} has no smoke run"
    if not {device, *_also(device)} & set(recipe.devices):
        return f"{title} has no smoke run on {device}, only on {' and '.join(recipe.devices)}"
    if device != CPU and devices < recipe.groups:
        few = f"the smoke run of {title} needs {recipe.groups} NPUs and gets {devices}"
        return f"{few}: each of its models runs on devices of its own"
    return None


def has_rollout(environment: Environment, device: Device, depth: Depth) -> bool:
    """Return whether the recipe of a framework says what generates the samples there."""
    recipe = environment.smoke_run
    return recipe is not None and any(
        part.rollout for part in recipe.parts if _applies(part, environment, device, depth)
    )


def backends(environment: Environment, device: Device, depth: Depth) -> tuple[str, ...]:
    """Return what can train the model in an environment on a device, the usual one first."""
    recipe = environment.smoke_run
    if recipe is None:
        return ()
    named = {part.backend for part in recipe.parts if _applies(part, environment, device, depth)}
    return tuple(backend for backend in recipe.backends if backend in named)


def other_backends(environment: Environment, job: Job) -> tuple[str, ...]:
    found = backends(environment, job.device, job.depth)
    return tuple(backend for backend in found if backend != (job.backend or job.recipe.backends[0]))


def make_job(
    recipe: SmokeRun, environment: Environment, device: Device, depth: Depth, place: Place, *, devices: int = 1,
    backend: str | None = None,
) -> Job:  # fmt: skip
    """Fill in a recipe for an environment, a device, a depth and a backend."""
    trains = backend or next(iter(recipe.backends), None)
    parts = [
        part for part in recipe.parts if _applies(part, environment, device, depth) and part.backend in {None, trains}
    ]
    rollout = next((part for part in parts if part.rollout), None)
    if rollout is None or rollout.rollout is None:
        raise MatrixError.of(f"no part has a rollout for {device} at depth {depth}", recipe.where, None)
    samples = recipe.prompts_per_step * recipe.samples_per_prompt
    share = _share(devices, recipe.groups, samples)
    devices = share * recipe.groups
    known = {
        **{name: str(value) for name, value in recipe.__dict__.items() if isinstance(value, int | str)},
        "engine": environment.coordinates.engine,
        "devices": str(devices),
        "devices_per_group": str(share),
        "device_numbers": ",".join(map(str, range(devices))),
        "rows": str(_rows(recipe)),
        "samples_per_step": str(samples),
        "samples_per_device": str(samples // share),
        "code": place.code,
        "folder": place.folder,
    }
    limits = [float(part.probability_limit) for part in parts if part.probability_limit is not None]
    settings = merged(recipe.settings, *(part.settings for part in parts))
    variables = {**recipe.variables, **{name: value for part in parts for name, value in part.variables.items()}}
    if device == CPU:
        # replaces the PYTHONPATH of an installed toolkit with the patches for CPUs
        variables["PYTHONPATH"] = f"{place.code}/{CPU}"
    try:
        settings = {key: Template(value).substitute(known) for key, value in settings.items()}
        variables = {name: Template(value).substitute(known) for name, value in variables.items()}
    except (KeyError, ValueError) as error:
        raise MatrixError.of(f"unknown or invalid placeholder in the settings: {error}", recipe.where, None) from error
    return Job(
        device=device,
        depth=depth,
        backend=backend if backend != next(iter(recipe.backends), None) else None,
        engine=environment.coordinates.engine,
        fallbacks=environment.engine.fallbacks,
        devices=devices,
        rollout=rollout.rollout,
        probability_limit=limits[-1] if limits else None,
        ours=tuple(part.ours for part in parts if part.ours),
        settings=settings,
        variables=variables,
        unset=tuple(name for part in parts for name in part.unset),
        recipe=recipe,
        place=place,
    )


def variables_of_a_run(environment: Environment, device: Device, place: Place) -> Mapping[str, str]:
    """Return the variables with which the modules of a run can be imported where its device is missing."""
    recipe = environment.smoke_run
    if device != CPU or recipe is None or obstacle(environment, device, 1) is not None:
        return {}
    depth: Depth = "engine" if has_rollout(environment, device, "engine") else "trainer"
    return make_job(recipe, environment, device, depth, place).variables


def _share(devices: int, groups: int, samples: int) -> int:
    """Return the most devices of a group that get the same number of samples each."""
    return next(share for share in range(max(1, devices // groups), 0, -1) if samples % share == 0)


def _rows(recipe: SmokeRun) -> int:
    return recipe.steps * recipe.prompts_per_step


def _also(device: Device) -> tuple[Device, ...]:
    """Return the device that a stand-in is treated as, besides its own settings."""
    return (NPU,) if device == STAND_IN else ()


def _applies(part: SmokeRunPart, environment: Environment, device: Device, depth: Depth) -> bool:
    return (
        part.device in {None, device, *_also(device)}
        and part.depth in {None, depth}
        and (part.when is None or environment.holds(part.when))
    )
