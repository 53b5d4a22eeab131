"""Changed containers of a real row, and the results of training and of the comparison of tokens in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal
from unittest.mock import Mock

from envbuilder.docker.engine import Docker
from envbuilder.environment import Environment
from envbuilder.matrix.model import CPU, STAND_IN, Device, SmokeRun
from envbuilder.validate.expected import Expected, expected, plan_of
from envbuilder.validate.imports import import_modules
from envbuilder.validate.report import Check
from envbuilder.validate.smoke.job import Job, smoke_job
from envbuilder.validate.static import static_checks
from envbuilder.validate.target import InContainer, Target, container_of
from envbuilder.validate.tokens import compare_tokens
from envbuilder.validate.training import train
from tests.integration.conftest import docker, labels

SILENT = Mock()  # a progress that shows nothing


@contextmanager
def sabotaged(row: Environment, device: Device, commands: str, files: Path | None = None) -> Iterator[InContainer]:
    """Start a container of the row's image, copy files to its /tmp and run these commands in it."""
    with container_of(Docker(), row.image_name("envbuilder"), row, device, 1) as target:
        container = target.id
        if files is not None:
            docker("cp", f"{files}/.", f"{container}:/tmp")
        docker("exec", container, "bash", "-c", commands)
        yield target


def state(row: Environment, labels: dict[str, str], device: Device, target: Target) -> Expected:
    """Return what the checks expect of a container of the row's image."""
    job = smoke_job(row, device, target.place)
    variables = job.variables if isinstance(job, Job) and device == CPU else {}
    return expected(row, plan_of(row, labels), labels, device, variables, is_image=True)


def failures(
    row: Environment, level: Literal["static", "import"], target: Target, folder: Path, *modules: str
) -> dict[str, str]:
    """Return the failed checks of a level, which imports only these modules, of a rehearsal."""
    found = state(row, labels(row.image_name("envbuilder")), STAND_IN, target)
    wanted = replace(found, modules=modules, used=())
    log = folder / f"{level}.log"
    checks = (
        static_checks(target, wanted, log)
        if level == "static"
        else import_modules(target, wanted, STAND_IN, log, SILENT)
    )
    return {check.name: check.message for check in checks if check.status == "failed"}


def trained(row: Environment, device: Device, target: Target, log: Path, **changed: str | int) -> dict[str, Check]:
    """Train at depth engine and return the checks; `changed` replaces values of the row's recipe."""
    assert row.smoke_run is not None
    recipe = SmokeRun(**{**row.smoke_run.__dict__, **changed})
    job = smoke_job(row, device, target.place, depth="engine", recipe=recipe)
    assert isinstance(job, Job)
    checks, _ = train(target, job, log, SILENT)
    return {check.name: check for check in checks}


def tokens(row: Environment, device: Device, target: Target, log: Path) -> Check:
    job = smoke_job(row, device, target.place, depth="engine")
    assert isinstance(job, Job)
    return compare_tokens(target, job, log, SILENT)
