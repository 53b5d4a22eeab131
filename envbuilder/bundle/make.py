"""Collects everything that a site without a network needs for an environment, and writes it into one file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from envbuilder.bundle.system import BuildBase, gather
from envbuilder.bundle.write import ProvenSource, check_output, require_lock, write_bundle
from envbuilder.docker.engine import Docker
from envbuilder.environment import Environment
from envbuilder.environment.packages import built_components
from envbuilder.inputs.base_image import BaseImageOptions, base_image
from envbuilder.inputs.other_indexes import within_reach
from envbuilder.inputs.reach import require_sources
from envbuilder.inputs.source_archives import SourceOptions, obtain_all, with_commits
from envbuilder.language import tr
from envbuilder.network import Network
from envbuilder.plan import Inputs, Plan, SourceArchive, host_plan, make_plan
from envbuilder.progress import Progress
from envbuilder.project.trees import pack_tree
from envbuilder.signing.keys import PrivateKey


@dataclass(frozen=True)
class BundleOptions:
    """The user's choices for a bundle."""

    sources: SourceOptions
    base: BaseImageOptions
    network: Network
    # for `build --offline` too, and not only for `install --offline`
    for_build: bool = False
    key: PrivateKey | None = None


def make_bundle(environment: Environment, output: Path, options: BundleOptions, progress: Progress) -> int:
    """Write a bundle and return its size in bytes."""
    check_output(output)
    # the folder of a project has its files and sources; a bundle has the row, the packages that the project adds, and
    # those of its sources that are commits
    project = within_reach(environment, options.network.ca_bundle, progress.say)
    environment, additions = project.of_row, project.additions
    require_lock(environment)
    require_sources(environment, options.sources)
    sources = obtain_all(environment, built_components(environment), options.sources, progress.say)
    proven = [_proven(environment, source, options.sources, progress) for source in sources.values()]
    sources = {item.archive.component: item.archive for item in proven}
    plan = make_plan(environment, Inputs(sources, tuple(options.network.secrets()), offline=True))
    trees = [
        pack_tree(source, options.sources.git_mirror)
        for source in (additions.sources.values() if additions else ())
        if source.folder is None
    ]
    own_sources = [ProvenSource(tree.archive, tree.commits) for tree in trees]
    own = options.sources.index
    indexes = [own, *(own.beside(url) for url in environment.packages.extra_indexes)]
    packages = host_plan(project, Inputs(sources)) if additions else plan
    gathered = _build_base(environment, packages, options, progress) if options.for_build else nullcontext(None)
    with gathered as base:
        return write_bundle(plan, proven, indexes, output, base, progress, options.key, additions, own_sources)


def _proven(
    environment: Environment, source: SourceArchive, options: SourceOptions, progress: Progress
) -> ProvenSource:
    if source.kind == "sdist":
        return ProvenSource(source, None)
    return ProvenSource(*with_commits(environment, source, options, progress.say))


@contextmanager
def _build_base(
    environment: Environment, plan: Plan, options: BundleOptions, progress: Progress
) -> Iterator[BuildBase]:
    docker = Docker()
    docker.require_buildkit()
    image = base_image(environment, options.base, docker, progress.say)
    progress.say(tr("gathering {image} and the packages of its distribution", image=image))
    with gather(plan, image, options.network.secrets(), docker, docker.platform(plan.arch)) as base:
        yield base
