"""envbuilder bundle"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envbuilder.cli import arguments, options
from envbuilder.plan import make_plan

if TYPE_CHECKING:
    from envbuilder.bundle import Ground
    from envbuilder.environment.resolve import Environment
    from envbuilder.plan import Plan
    from envbuilder.progress import Progress


@click.command("bundle")
@options.identifier()
@options.dimensions
@options.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, help="The file to write."
)
@options.option(
    "--for-build", is_flag=True,
    help="What `build --offline` needs too, by the docker engine: the base image and packages of its distribution.",
)  # fmt: skip
@options.reaching
@options.sources
@options.index
@options.matrices
@options.talking
def command(identifier: str | None, output: Path, for_build: bool, **given: Any) -> None:
    """Everything that a site without a network needs of an environment, in one file, for `--offline`.

    Wheels by the lock, sources at their commits, the Dockerfile and the script, each with its digest.
    """
    from envbuilder.bundle import check_output, require_lock, write_bundle
    from envbuilder.cli.progress import shown
    from envbuilder.environment.packages import packages_of
    from envbuilder.inputs.source_archives import obtain_all

    console, matrix = arguments.console_of(given), arguments.matrix_of(given, everything=True)
    environment = arguments.environment_of(matrix, identifier, given)
    check_output(output)
    with shown(console) as progress, ExitStack() as stack:
        needed = make_plan(matrix, environment)
        require_lock(needed)
        sources = obtain_all(matrix, environment, needed.components, arguments.origin_of(given), progress.say)
        plan = make_plan(matrix, environment, sources)
        own = arguments.index_of(given)
        indexes = [own, *(arguments.other_index(given, url) for url in packages_of(matrix, environment).extra_indexes)]
        ground = stack.enter_context(_ground(environment, plan, given, progress)) if for_build else None
        size = write_bundle(plan, sources, indexes, output, ground, progress)
    console.talk(f"{environment.id}: {size / 10**9:.2f} GB")
    console.out(str(output))


@contextmanager
def _ground(environment: Environment, plan: Plan, given: dict[str, Any], progress: Progress) -> Iterator[Ground]:
    from envbuilder.bundle import gather
    from envbuilder.docker.engine import Engine
    from envbuilder.inputs.base_image import base_image, platform_of

    engine = Engine()
    engine.require_buildkit()
    base = base_image(plan.base_image, environment, arguments.base_of(given), engine, progress.say)
    progress.say(f"gathering {base} and the packages of its distribution")
    secrets = arguments.network_of(given).secrets()
    with gather(plan, base, secrets, engine, platform_of(environment, engine)) as ground:
        yield ground
