"""Gathers what a build needs on this machine: the base image, sources, a bundle, and the settings of the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from envbuilder.build.bill_of_materials import bill_of_materials
from envbuilder.build.options import BuildOptions
from envbuilder.bundle import Bundle, as_bundled, bundle_of
from envbuilder.docker.engine import Docker
from envbuilder.environment import Environment
from envbuilder.environment.packages import built_components
from envbuilder.inputs.base_image import base_image
from envbuilder.inputs.other_indexes import within_reach
from envbuilder.inputs.reach import require_sources
from envbuilder.inputs.source_archives import obtain_all
from envbuilder.inputs.stand_in_base import stand_in_base, wanted_base
from envbuilder.language import tr
from envbuilder.network import offline_network
from envbuilder.plan import Inputs, SourceArchive
from envbuilder.plan.sources import labelled_sources
from envbuilder.progress import Progress
from envbuilder.project.trees import own_archives


@dataclass(frozen=True)
class Gathered:
    """The inputs of a build, all on this machine."""

    # with builds of the package index where others are out of reach
    environment: Environment
    base: str
    base_id: str
    sources: Mapping[str, SourceArchive]
    secrets: Mapping[str, str]
    # the unpacked bundle that everything comes from, in a build without a network
    bundle: Bundle | None

    @property
    def inputs(self) -> Inputs:
        return Inputs(self.sources, tuple(self.secrets), offline=self.bundle is not None, bill=True)

    @property
    def bill(self) -> str:
        return bill_of_materials(self.environment, self.sources, self.base, self.base_id)


def gather(
    environment: Environment, options: BuildOptions, docker: Docker, progress: Progress, folder: Path
) -> Gathered:
    """Get everything onto this machine; a bundle is unpacked into the folder."""
    if environment.additions is not None:
        return _of_project(environment, options, docker, progress, folder)
    if options.offline is not None:
        environment = as_bundled(environment, options.offline)
        progress.say(tr("comparing every byte of {file}", file=options.offline))
        bundled = as_bundled(options.project or environment, options.offline)
        bundle = bundle_of(bundled, options.offline, folder, options.keys, for_build=True)
        progress.say(bundle.trust(for_build=True))
        base, sources, network = _load(bundle, docker), bundle.sources, offline_network()
    else:
        assert options.sources is not None  # noqa: S101  only a bundle needs none
        bundle, network = None, options.network
        environment = within_reach(environment, network.ca_bundle, progress.say)
        instead = _instead(environment, options)
        wanted = wanted_base(environment, options.base) if environment.on_stand_in else None
        require_sources(environment, options.sources, instead)
        if wanted is not None:
            mirror = options.base.apt_mirror
            base = stand_in_base(environment, wanted, mirror, network, docker, progress.say)
        else:
            base = base_image(environment, options.base, docker, progress.say, instead)
        sources = obtain_all(environment, built_components(environment), options.sources, progress.say)
    found = docker.image(base)
    return Gathered(environment, base, found.id if found else "", sources, network.secrets(), bundle)


def _of_project(
    environment: Environment, options: BuildOptions, docker: Docker, progress: Progress, folder: Path
) -> Gathered:
    """Get the image of the row, and pack the project's own sources."""
    assert options.row_image is not None  # noqa: S101  it was made before
    bundle, network = None, options.network
    if options.offline is not None:
        # it has the own sources that are no folders
        bundle = bundle_of(environment, options.offline, folder, options.keys, for_build=True)
        network = offline_network()
    found = docker.image(options.row_image)
    mirror = options.sources.git_mirror if options.sources else None
    # those of the row are in its image
    sources = labelled_sources(found.labels if found else {}) | own_archives(environment, mirror, progress.say)
    return Gathered(environment, options.row_image, found.id if found else "", sources, network.secrets(), bundle)


def _instead(environment: Environment, options: BuildOptions) -> str | None:
    """Return what a build does without the vendor's image."""
    if environment.on_stand_in or environment.hardware.cpu_only or options.base.image:
        return None
    return tr("with --rehearse it is built and proven on a stand-in of CANN, without the vendor's base image")


def _load(bundle: Bundle, docker: Docker) -> str:
    """Load the base image of a bundle, unless the engine has it from an earlier build, and return its name."""
    assert bundle.base_image is not None  # noqa: S101  it was opened for a build
    if docker.image(bundle.base_image) is None:
        docker.load(bundle.base_archive, bundle.base_image)
    return bundle.base_image
