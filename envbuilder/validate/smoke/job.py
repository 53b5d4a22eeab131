"""Makes the job of a smoke run: the recipe of a framework, filled in for an environment, a device and a depth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from string import Template
from typing import Any

from envbuilder.environment import Environment
from envbuilder.environment.trainer_arguments import merged, words_of
from envbuilder.errors import HostError, MatrixError
from envbuilder.language import english, tr
from envbuilder.matrix.model import CPU, GPU, NPU, STAND_IN, Depth, Device, SmokeRun, SmokeRunPart

# Ray schedules by resources, and a run needs the same number of processes on few cores as on many
_RAY_CPUS = 64
_TEST_ROWS = 16


@dataclass(frozen=True)
class Place:
    """The folders of a run: of its code, and of its files."""

    code: str
    folder: str


@dataclass(frozen=True)
class Job:
    """The input of `inside/train.py`, and the details of the run for the report."""

    device: Device
    depth: Depth
    # None for the usual one of the framework
    backend: str | None
    # the other backends that can train the model
    other_backends: tuple[str, ...]
    engine: str
    # words in its log that show that it generated with another model than its own
    fallbacks: tuple[str, ...]
    devices: int
    rollout: str
    # how the samples are drawn
    draws: str | None
    # the most that the probabilities of the engine and of the trainer may differ by; None if they are not compared
    probability_limit: float | None
    # code of envbuilder that the run uses where the upstream code does not work
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
            "assets": {"seed": recipe.seed, "train_rows": _rows(recipe), "test_rows": _TEST_ROWS},
            "cpus": _RAY_CPUS,
            "resources": ({"NPU": self.devices} if self.device != GPU else {}) if recipe.ray else None,
            # Ray has an option of its own for them
            "gpus": self.devices if self.device == GPU else 0,
            "variables": dict(self.variables),
            "unset": self.unset,
            "arguments": [word for item in self.settings.items() for word in words_of(recipe.style, *item)],
        }


@dataclass(frozen=True)
class NotRun:
    """The reason why an environment has no smoke run on a device."""

    reason: str


def smoke_job(
    environment: Environment, device: Device, place: Place, *, depth: Depth | None = None, devices: int = 1,
    backend: str | None = None, compiled: bool = True, recipe: SmokeRun | None = None,
) -> Job | NotRun:  # fmt: skip
    """Return the smoke run of an environment on a device, or why there is none.

    A depth of None is the deepest that runs. `compiled` is false if the engine was not compiled for the CPU, and
    `recipe` replaces that of the framework.
    """
    recipe = recipe or environment.smoke_run
    if recipe is None:
        return NotRun(english("{framework} has no smoke run", framework=environment.framework.title))
    reason = _obstacle(environment, recipe, device, devices)
    if reason is not None:
        return NotRun(reason)
    parts = _parts(recipe, environment, device, "engine")
    engine_runs = device != CPU or (compiled and any(part.rollout for part in parts))
    if depth == "engine" and not engine_runs:
        message = tr("the engine of {environment} does not run on the CPU", environment=environment.id)
        raise HostError(message, hint=tr("use --depth trainer, or a machine with NPUs"))
    depth = depth or ("engine" if engine_runs else "trainer")
    return _filled(recipe, environment, device, depth, place, devices, backend)


def backends(environment: Environment, device: Device, depth: Depth) -> tuple[str, ...]:
    """Return what can train the model in an environment on a device, the usual one first."""
    recipe = environment.smoke_run
    if recipe is None:
        return ()
    named = {part.backend for part in _parts(recipe, environment, device, depth)}
    return tuple(backend for backend in recipe.backends if backend in named)


def _obstacle(environment: Environment, recipe: SmokeRun, device: Device, devices: int) -> str | None:
    title = environment.framework.title
    if environment.hardware.has_gpus and device != GPU:
        return english("its torch and its engine are built for GPUs, and need one and its driver")
    if not _kinds(device) & set(recipe.devices):
        return english(
            "{framework} has no smoke run on {device}, only on {devices}",
            framework=title,
            device=device,
            devices=" and ".join(recipe.devices),
        )
    if device != CPU and devices < recipe.groups:
        return english(
            "the smoke run of {framework} needs {number} NPUs and gets {devices}: each of its models runs "
            "on devices of its own",
            framework=title,
            number=recipe.groups,
            devices=devices,
        )
    return None


def _filled(
    recipe: SmokeRun, environment: Environment, device: Device, depth: Depth, place: Place, devices: int,
    backend: str | None,
) -> Job:  # fmt: skip
    """Fill in a recipe for an environment, a device, a depth and a backend."""
    usual = next(iter(recipe.backends), None)
    trains = backend or usual
    parts = [part for part in _parts(recipe, environment, device, depth) if part.backend in {None, trains}]
    rollout = next((part.rollout for part in parts if part.rollout), None)
    if rollout is None:
        message = tr("no part has a rollout for {device} at depth {depth}", device=device, depth=depth)
        raise MatrixError.of(message, recipe.where, None)
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
        draws = [Template(part.draws).substitute(known) for part in parts if part.draws]
    except (KeyError, ValueError) as error:
        message = tr("unknown or invalid placeholder in the settings: {reason}", reason=error)
        raise MatrixError.of(message, recipe.where, None) from error
    return Job(
        device=device,
        depth=depth,
        backend=trains if trains != usual else None,
        other_backends=tuple(name for name in backends(environment, device, depth) if name != trains),
        engine=environment.coordinates.engine,
        fallbacks=environment.engine.fallbacks,
        devices=devices,
        rollout=rollout,
        draws=draws[-1] if draws else None,
        probability_limit=limits[-1] if limits else None,
        ours=tuple(part.ours for part in parts if part.ours),
        settings=settings,
        variables=variables,
        unset=tuple(name for part in parts for name in part.unset),
        recipe=recipe,
        place=place,
    )


def _share(devices: int, groups: int, samples: int) -> int:
    """Return the most devices of a group that get the same number of samples each."""
    return next(share for share in range(max(1, devices // groups), 0, -1) if samples % share == 0)


def _rows(recipe: SmokeRun) -> int:
    return recipe.steps * recipe.prompts_per_step


def _kinds(device: Device) -> set[Device]:
    """Return the devices whose settings a run takes: on a stand-in also those of an NPU."""
    return {NPU, STAND_IN} if device == STAND_IN else {device}


def _parts(recipe: SmokeRun, environment: Environment, device: Device, depth: Depth) -> list[SmokeRunPart]:
    return [
        part
        for part in recipe.parts
        if part.device in {None, *_kinds(device)}
        and part.depth in {None, depth}
        and (part.when is None or environment.holds(part.when))
    ]
