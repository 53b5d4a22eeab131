"""Delivers an environment: builds its image, proves it, gives it its name, and pushes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from envbuilder.build.build import Built, build
from envbuilder.build.options import BuildOptions
from envbuilder.docker.engine import Docker, Image
from envbuilder.environment import Environment
from envbuilder.environment.coordinates import USUAL_REGISTRY
from envbuilder.environment.image_names import ENVIRONMENT, FALLBACK, LOCK, candidate_name
from envbuilder.language import tr
from envbuilder.progress import Progress
from envbuilder.registry.pull import RegistryOptions
from envbuilder.registry.push import push
from envbuilder.signing.keys import PrivateKey
from envbuilder.validate import Report, ValidationOptions
from envbuilder.validate.gate import pass_gate


@dataclass(frozen=True)
class DeliveryOptions:
    """Where an image goes, and what it must pass before."""

    registry: str = USUAL_REGISTRY
    push: bool = False
    # how far the image must be proven before it gets its name; None if it need not be
    validation: ValidationOptions | None = None
    # where the report of the proof is written, by the form of the file
    files: Mapping[str, Path] = field(default_factory=dict)
    # signs what is pushed
    key: PrivateKey | None = None
    # gets the published image of the row that a project is on, and returns its name; None if none is published
    pull_row: Callable[[Environment], str | None] = lambda row: None


@dataclass(frozen=True)
class Delivered:
    """A named image, with how it was built and proven."""

    built: Built
    name: str
    image: Image
    seconds: float
    # None if the image was not pushed
    digest: str | None
    # None if the image was not proven, or had been proven before
    proof: Report | None

    def report(self) -> dict[str, Any]:
        return {
            "environment": self.built.plan.environment,
            "image": self.name,
            "id": self.image.id,
            "digest": self.digest,
            "size": self.image.size,
            "seconds": round(self.seconds, 1),
            "steps": [
                {
                    "title": title,
                    "seconds": round(step.seconds, 1) if step else None,
                    "cached": step.cached if step else None,
                }
                for title, step in self.built.steps
            ],
            "sources": [
                {"component": item.component, "kind": item.kind, "reference": item.reference, "sha256": item.sha256}
                for item in self.built.sources
            ],
            "wheels": dict(self.built.wheels),
            "fallback": self.image.labels.get(FALLBACK),
            "log": str(self.built.log),
            "validation": {**self.proof.document(), "digest": self.proof.digest} if self.proof else None,
        }


def deliver(
    environment: Environment, options: DeliveryOptions, how: BuildOptions, docker: Docker, progress: Progress
) -> Delivered:
    """Build an image; prove it and push it if that is wanted."""
    started = time.monotonic()
    if environment.additions is not None:
        environment, image = _on_row(environment, options, how, docker, progress)
        how = replace(how, row_image=image)
    name = environment.image_name(options.registry)
    proof = digest = None
    if options.validation is None:
        built = build(environment, name, how, docker, progress)
    else:
        built = build(environment, candidate_name(name), how, docker, progress)
        proof = pass_gate(built.environment, built.plan, name, docker, options.validation, progress, options.files)
    if options.push:
        place = RegistryOptions(options.registry, ca_bundle=how.network.ca_bundle)
        digest = push(
            environment,
            place,
            docker,
            progress,
            candidate=False,
            replace=True,
            local=options.registry,
            key=options.key,
        ).digest
    made = docker.image(name)
    assert made is not None  # noqa: S101  the build has just named it
    return Delivered(built, name, made, time.monotonic() - started, digest, proof)


def _on_row(
    environment: Environment, options: DeliveryOptions, how: BuildOptions, docker: Docker, progress: Progress
) -> tuple[Environment, str]:
    """Return the environment of a project on the image of its row, which is here, published, or built now."""
    row = environment.of_row
    for name in (row.image_name(options.registry), row.image_name(DeliveryOptions.registry)):
        found = docker.image(name)
        if found is not None and _is_image_of(row, found):
            return environment.as_labelled(found.labels), name
    pulled = options.pull_row(row)
    if pulled is not None and (found := docker.image(pulled)) is not None:
        return environment.as_labelled(found.labels), pulled
    progress.say(tr("the engine has no image of the row {environment}: it is built first", environment=row.id))
    made = deliver(row, replace(options, push=False, files={}), replace(how, project=environment), docker, progress)
    return environment.as_labelled(made.image.labels), made.name


def _is_image_of(row: Environment, image: Image) -> bool:
    lock = row.as_labelled(image.labels).lock
    return image.labels.get(ENVIRONMENT) == row.id and lock is not None and image.labels.get(LOCK) == lock.digest
