"""Foresees what a build takes and where it would fail, without building."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from envbuilder.build.options import BuildOptions
from envbuilder.docker.engine import Docker
from envbuilder.environment import Environment
from envbuilder.environment.coordinates import USUAL_REGISTRY
from envbuilder.errors import EnvbuilderError
from envbuilder.inputs.base_image import wanted_image
from envbuilder.inputs.debian_base import is_made, maker
from envbuilder.inputs.other_indexes import within_reach
from envbuilder.inputs.reach import git_sources, require_sources
from envbuilder.inputs.source_archives import SourceOptions
from envbuilder.inputs.stand_in_base import Wanted, wanted_base
from envbuilder.language import tr


@dataclass(frozen=True)
class Foreseen:
    """What a build would take."""

    # with builds of the package index where others are out of reach
    environment: Environment
    base_image: str
    # the sources that only repositories have
    repositories: tuple[str, ...] = ()
    git_mirror: str | None = None
    # whether an engine answers, where that was asked
    has_engine: bool = True
    # the error that the build would end with
    error: EnvbuilderError | None = None


def foresee(environment: Environment, options: BuildOptions, say: Callable[[str], None]) -> Foreseen:
    """Return what a build would take; of a rehearsal, also what is out of reach."""
    if environment.additions is not None:
        return Foreseen(environment, environment.of_row.image_name(USUAL_REGISTRY))
    if options.sources is None:
        return Foreseen(environment, environment.base_image)
    repositories, mirror = _repositories(environment, options.sources), options.sources.git_mirror
    if not environment.on_stand_in:
        return Foreseen(environment, wanted_image(environment, options.base), repositories, mirror)
    environment = within_reach(environment, options.network.ca_bundle, say)
    wanted, docker, error = wanted_base(environment, options.base), _engine(), None
    try:
        require_sources(environment, options.sources)
        _require_maker(wanted, environment.coordinates.arch, docker)
    except EnvbuilderError as found:
        error = found
    return Foreseen(environment, _described(wanted, environment), repositories, mirror, docker is not None, error)


def _repositories(environment: Environment, sources: SourceOptions) -> tuple[str, ...]:
    commits = (commit for item in git_sources(environment, sources.how) for commit in (item.commit, *item.submodules))
    return tuple(commit.title for commit in commits)


def _engine() -> Docker | None:
    try:
        return Docker()
    except EnvbuilderError:
        return None


def _require_maker(wanted: Wanted, arch: str, docker: Docker | None) -> None:
    """Raise the error of a build that cannot make the system below the stand-in."""
    system = wanted.system
    if not isinstance(system, str) and not (docker and is_made(docker, system, arch)):
        maker(arch, docker)


def _described(wanted: Wanted, environment: Environment) -> str:
    named = {"name": wanted.name, "other": environment.base_image}
    if isinstance(wanted.system, str):
        return tr("{name}, made here on {system} in place of {other}", **named, system=wanted.system)
    suite = wanted.system.suite
    return tr("{name}, made here on the packages of Debian {suite} in place of {other}", **named, suite=suite)
