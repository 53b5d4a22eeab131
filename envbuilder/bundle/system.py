"""What an image stands on, for engines that reach nothing: the base image and the packages of its distribution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from envbuilder import paths
from envbuilder.docker.buildkit import Silent
from envbuilder.docker.buildx import Build, BuildError, run
from envbuilder.docker.engine import Engine
from envbuilder.docker.failures import hint_of
from envbuilder.errors import EnvbuilderError
from envbuilder.files import workspace
from envbuilder.plan import Plan
from envbuilder.render import render_packages


@dataclass(frozen=True)
class Ground:
    """Under the name that it will have there, so that no image of theirs loses its own."""

    name: str
    image: IO[bytes]
    packages: tuple[Path, ...]


@contextmanager
def gather(plan: Plan, base: str, secrets: Mapping[str, str], engine: Engine, platform: str | None) -> Iterator[Ground]:
    found = engine.image(base)
    assert found is not None  # noqa: S101  the caller has just got it
    name = f"envbuilder/base:{found.id.rpartition(':')[2][:12]}"
    with workspace() as folder:
        context, output = folder / "context", folder / "debs"
        context.mkdir()
        (context / "Dockerfile").write_text(render_packages(plan.reading(secrets)), encoding="utf-8")
        log = paths.new_log(plan.environment)
        task = Build(
            context=context, secrets=secrets, arguments={"BASE_IMAGE": base}, platform=platform, log=log, output=output
        )
        try:
            run(task, Silent())
        except BuildError as error:
            said = error.lines[-1] if error.lines else "the engine says nothing"
            raise EnvbuilderError(
                f"the packages of the distribution cannot be gathered: {said}",
                hint="; ".join(filter(None, (hint_of(error.lines), f"the whole log: {log}"))),
            ) from error
        engine.tag(base, name)
        try:
            image = engine.save(name)
        finally:
            engine.untag(name)
        with image:
            yield Ground(name, image, tuple(sorted(output.iterdir())))
