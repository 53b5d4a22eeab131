"""Runs the levels of a validation: the installed packages, the imports, and a training run."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from envbuilder import paths
from envbuilder.docker.emulation import processor
from envbuilder.environment import Environment
from envbuilder.language import english, tr
from envbuilder.matrix.model import CPU, GPU, NPU, STAND_IN, Depth, Device
from envbuilder.plan import Plan
from envbuilder.progress import Progress
from envbuilder.validate.account import Accountant, Accounted
from envbuilder.validate.expected import expected
from envbuilder.validate.imports import import_modules
from envbuilder.validate.report import LEVELS, Check, Report, TrainingResult, ValidationLevel
from envbuilder.validate.smoke.job import Job, NotRun, smoke_job
from envbuilder.validate.static import static_checks
from envbuilder.validate.target import Target
from envbuilder.validate.tokens import compare_tokens
from envbuilder.validate.training import TITLE, train

_TITLES: Mapping[ValidationLevel, str] = {"static": "static checks", "import": "imports", "train": TITLE}


@dataclass(frozen=True)
class Subject:
    """A target to validate, and the image of its container; `image` is None for this host."""

    target: Target
    image: str | None = None
    image_id: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    # takes the account of the files of the image
    accountant: Accountant | None = None


@dataclass(frozen=True)
class ValidationOptions:
    """How far to validate. A `depth` of None is the deepest that the image and the machine support."""

    level: ValidationLevel = "train"
    device: Device = CPU
    npus: int = 1
    depth: Depth | None = None
    # None for the usual one of the framework
    backend: str | None = None


def validate(
    environment: Environment, plan: Plan, subject: Subject, options: ValidationOptions, progress: Progress
) -> Report:
    """Run all levels up to the requested one on what a plan has made, and return the report."""
    began = datetime.now(timezone.utc)
    started = time.monotonic()
    levels = LEVELS[: LEVELS.index(options.level) + 1]
    progress.expect([_TITLES[level] for level in levels])
    job = _job(environment, subject.target, options)
    # on a CPU the modules of the engine need the variables of a run at depth engine, whatever the depth of this run
    deepest = smoke_job(environment, options.device, subject.target.place)
    variables = deepest.variables if isinstance(deepest, Job) and options.device == CPU else {}
    wanted = expected(environment, plan, subject.labels, options.device, variables, is_image=subject.image is not None)
    checks: list[Check] = []
    times: dict[str, float] = {}
    training: TrainingResult | None = None
    accounted: Accounted | None = None
    for level in levels:
        progress.started(_TITLES[level])
        before = time.monotonic()
        log = paths.new_log(environment.id, f"-{level}")
        if level == "static":
            accounted = subject.accountant(wanted, log) if subject.accountant else None
            found = static_checks(subject.target, wanted, log, accounted)
        elif level == "import":
            found = import_modules(subject.target, wanted, options.device, log, progress)
        else:
            found, training = _train(environment, subject.target, job, checks, log, progress)
        checks += found
        times[level] = round(time.monotonic() - before, 1)
        progress.ended(_TITLES[level], f"{_summary(found)}, {times[level]:.0f} s")
    return Report(
        environment=environment.id,
        title=environment.title,
        image=subject.image,
        image_id=subject.image_id,
        level=options.level,
        device=options.device,
        machine=_machine(environment, options),
        started=began.strftime("%Y-%m-%dT%H:%M:%SZ"),
        seconds=round(time.monotonic() - started, 1),
        pins={name: pin.full for name, pin in environment.pins.items()},
        fallback=environment.fallback,
        times=times,
        checks=tuple(checks),
        training=training,
        account=accounted.account if accounted else None,
    )


def _job(environment: Environment, target: Target, options: ValidationOptions) -> Job | NotRun:
    product = environment.engine.cpu_product
    return smoke_job(
        environment,
        options.device,
        target.place,
        depth=options.depth if options.device == CPU else "engine",
        devices=options.npus,
        backend=options.backend,
        compiled=options.device != CPU or product is None or _has_product(target, product),
    )


def _train(
    environment: Environment, target: Target, job: Job | NotRun, before: list[Check], log: Path, progress: Progress
) -> tuple[list[Check], TrainingResult | None]:
    if isinstance(job, NotRun):
        return [_not_checked("training", job.reason)], None
    stopped = _not_checked("training", english("an earlier check failed"))
    if any(check.status == "failed" for check in before):
        return [stopped], None
    tokens: list[Check] = []
    # on a device the numbers differ, and with them a token where two are equally likely
    if job.depth == "engine" and job.device not in {NPU, GPU}:
        tokens = [compare_tokens(target, job, paths.new_log(environment.id, "-tokens"), progress)]
        if tokens[0].status == "failed":
            return [*tokens, stopped], None
    checks, training = train(target, job, log, progress)
    return [*tokens, *checks, *_not_trained(job)], training


def _has_product(target: Target, pattern: str) -> bool:
    code = "import glob, sys, sysconfig; sys.exit(not glob.glob(sysconfig.get_path('platlib') + '/' + sys.argv[1]))"
    return target.ask(["python3", "-c", code, pattern])


def _not_checked(name: str, reason: str) -> Check:
    return Check("train", name, "not-checked", reason)


def _not_trained(job: Job) -> Iterator[Check]:
    """Yield what a passed run leaves unproven, as checks that were not made."""
    for backend in job.other_backends:
        reason = english("another run trains with it: validate --backend {backend}", backend=backend)
        yield _not_checked(f"backend {backend}", reason)
    if job.device not in {NPU, GPU}:
        yield _not_checked("device code", english("needs an NPU: kernels, collective communication, memory"))
    if job.depth != "engine":
        yield _not_checked(f"engine {job.engine}", english("transformers generated the samples"))


def _summary(checks: list[Check]) -> str:
    counts = Counter(check.status for check in checks)
    if counts["failed"]:
        return "failed"
    return tr("{number} passed", number=counts["passed"]) if counts["passed"] else tr("not checked")


def _machine(environment: Environment, options: ValidationOptions) -> str:
    host = f"{processor(environment.coordinates.arch)}, {os.cpu_count()} cores"
    if options.device == STAND_IN:
        return f"{host}, no NPU: {options.npus} stand-in{'s' if options.npus > 1 else ''}"
    if options.device == NPU:
        return f"{host}, {environment.hardware.title}, {options.npus} NPUs"
    if options.device == GPU:
        return f"{host}, {options.npus} x {environment.hardware.title}"
    return f"{host}, no NPU"
