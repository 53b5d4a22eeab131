"""Installs an environment on this host: checks the host, gets the inputs, and completes the parts that are not done."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from envbuilder.bundle import as_bundled, bundle_of
from envbuilder.environment import Environment
from envbuilder.environment.packages import built_components
from envbuilder.inputs.other_indexes import within_reach
from envbuilder.inputs.reach import require_sources
from envbuilder.inputs.source_archives import SourceOptions, obtain_all
from envbuilder.install.host_check import check_host, find_python
from envbuilder.install.installation import Work, check_same, install
from envbuilder.install.journal import alone, check_prefix
from envbuilder.language import tr
from envbuilder.machine.machine import look
from envbuilder.network import installing_from
from envbuilder.plan import Inputs, host_plan
from envbuilder.progress import Progress
from envbuilder.project.trees import own_archives
from envbuilder.signing.keys import PublicKey

# the folder under the prefix that a bundle is unpacked into during an installation
_BUNDLE = "bundle"


@dataclass(frozen=True)
class InstallOptions:
    """What a user chooses for an installation."""

    prefix: Path
    # the interpreter to use; None takes the first of the right version
    python: str | None
    # None if everything comes from a bundle
    sources: SourceOptions | None
    # the bundle, if there is one
    offline: Path | None
    # environment variables for pip and uv
    variables: dict[str, str]
    # one of them must have signed the bundle
    keys: tuple[PublicKey, ...] = ()


def check_installation(environment: Environment, options: InstallOptions) -> list[str]:
    """Refuse a folder or a host that does not fit; return notes on what could not be checked."""
    check_prefix(options.prefix)
    check_same(options.prefix, environment.id)
    toolkits = {item.version for item in look().cann if item.version}
    return check_host(environment, host_plan(environment), toolkits)


def prepare(environment: Environment, options: InstallOptions, progress: Progress, *, unpack: bool) -> Work:
    """Return the work of an installation. Without `unpack` only the description of a bundle is read."""
    if options.offline is not None:
        environment = as_bundled(environment, options.offline)
    elif options.sources is not None:
        environment = within_reach(environment, options.sources.index.ca_bundle, progress.say)
    python = find_python(environment.packages.python, options.python, options.prefix)
    if options.offline is not None:
        folder = options.prefix / _BUNDLE
        if unpack:
            # unpacked each time: the files of an earlier run may have been changed
            shutil.rmtree(folder, ignore_errors=True)
        bundle = bundle_of(environment, options.offline, folder, options.keys, for_build=False, unpack=unpack)
        progress.say(bundle.trust(for_build=False))
        # a URL, because pip and uv split a list of folders at blanks and commas
        sources, variables = dict(bundle.sources), installing_from(str(bundle.offline), bundle.wheels.as_uri())
    else:
        assert options.sources is not None  # noqa: S101  only a bundle needs none
        require_sources(environment, options.sources)
        own = environment.additions.sources if environment.additions else {}
        names = [name for name in built_components(environment) if name not in own]
        sources = obtain_all(environment, names, options.sources, progress.say)
        variables = options.variables
    sources |= own_archives(environment, options.sources.git_mirror if options.sources else None, progress.say)
    return Work(host_plan(environment, Inputs(sources)), sources, options.prefix, python, variables)


def install_environment(environment: Environment, options: InstallOptions, progress: Progress) -> Path:
    """Install, or continue an interrupted installation; return the file to be sourced afterwards."""
    prefix = options.prefix
    waiting = tr("waiting for another installation in {prefix}, or for processes of an interrupted one", prefix=prefix)
    with alone(prefix, lambda: progress.say(waiting)) as turn:
        try:
            return install(prepare(environment, options, progress, unpack=True), progress, turn)
        except (KeyboardInterrupt, SystemExit):
            progress.say(tr("run the same command again to continue"))
            raise
        finally:
            shutil.rmtree(prefix / _BUNDLE, ignore_errors=True)
