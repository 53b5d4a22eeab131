"""Gathers the base image and the packages of its distribution, for builds on engines without a network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from envbuilder import paths
from envbuilder.docker.buildkit import Silent
from envbuilder.docker.buildx import Build, BuildError, run
from envbuilder.docker.engine import Docker
from envbuilder.docker.failures import build_failure
from envbuilder.files import workspace
from envbuilder.language import tr
from envbuilder.plan import Plan
from envbuilder.render import render_packages


@dataclass(frozen=True)
class BuildBase:
    """The base image, with a name of its own so that it replaces no other, and packages of its distribution."""

    name: str
    image: IO[bytes]
    packages: tuple[Path, ...]


@contextmanager
def gather(
    plan: Plan, base: str, secrets: Mapping[str, str], docker: Docker, platform: str | None
) -> Iterator[BuildBase]:
    """Save the base image, and download the packages of its distribution that the plan installs."""
    found = docker.image(base)
    assert found is not None  # noqa: S101  the caller has just pulled or made it
    name = f"envbuilder/base:{found.id.rpartition(':')[2][:12]}"
    with workspace() as folder:
        context, output = folder / "context", folder / "debs"
        context.mkdir()
        (context / "Dockerfile").write_text(render_packages(plan), encoding="utf-8")
        log = paths.new_log(plan.environment)
        task = Build(
            context=context, secrets=secrets, arguments={"BASE_IMAGE": base}, platform=platform, log=log, output=output
        )
        try:
            run(task, Silent())
        except BuildError as error:
            reason = error.lines[-1] if error.lines else tr("the engine printed nothing")
            message = tr("the packages of the distribution cannot be gathered: {reason}", reason=reason)
            raise build_failure(message, error.lines, log) from error
        docker.tag(base, name)
        try:
            image = docker.save(name)
        finally:
            docker.untag(name)
        with image:
            yield BuildBase(name, image, tuple(sorted(output.iterdir())))
