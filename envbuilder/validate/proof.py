"""Proves an image of the docker engine, or this host, and records the evidence."""

from __future__ import annotations

from pathlib import Path

from envbuilder.docker.engine import Docker
from envbuilder.environment import Environment
from envbuilder.environment.image_names import ENVIRONMENT
from envbuilder.errors import HostError, ValidationError
from envbuilder.files import workspace
from envbuilder.language import tr
from envbuilder.matrix import evidence
from envbuilder.progress import Progress
from envbuilder.validate.account import ImageAccountant
from envbuilder.validate.expected import plan_of
from envbuilder.validate.levels import Subject, ValidationOptions, validate
from envbuilder.validate.report import Report
from envbuilder.validate.target import OnHost, container_of


def prove_image(
    environment: Environment, image: str, docker: Docker, options: ValidationOptions, progress: Progress
) -> Report:
    """Prove an image that envbuilder has built."""
    made = docker.image(image)
    assert made is not None  # noqa: S101  the caller has found it
    if not docker.runs(made.arch):
        message = tr(
            "{image} is for {arch}, and the docker engine runs {docker}",
            image=image,
            arch=made.arch,
            docker=docker.arch,
        )
        raise HostError(message)
    if made.labels.get(ENVIRONMENT) != environment.id:
        message = tr(
            "{image} has no label {label}={environment}, so its environment is unknown",
            image=image,
            label=ENVIRONMENT,
            environment=environment.id,
        )
        raise ValidationError(message, hint=tr("only images that envbuilder has built can be validated"))
    with container_of(docker, image, environment, options.device, options.npus) as target:
        accountant = ImageAccountant(docker, made.id, environment)
        subject = Subject(target, image, made.id, made.labels, accountant)
        return validate(environment, plan_of(environment, made.labels), subject, options, progress)


def prove_host(
    environment: Environment, labels: dict[str, str], options: ValidationOptions, progress: Progress
) -> Report:
    """Prove this host. `labels` are those of the installation whose `activate` this shell has sourced."""
    with workspace() as folder:
        subject = Subject(OnHost(folder), labels=labels)
        return validate(environment, plan_of(environment, labels), subject, options, progress)


def record_proof(report: Report, environment: Environment, folder: Path) -> None:
    """Record as evidence of the environment what a report proves, if it proves anything."""
    found = report.evidence()
    if found is not None:
        level, details = found
        details |= environment.fallback_detail
        evidence.record(folder, environment.coordinates.folder, level, report.machine, details)
