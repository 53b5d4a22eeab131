"""What a user chooses for a build."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from envbuilder.environment import Environment
from envbuilder.inputs.base_image import BaseImageOptions
from envbuilder.inputs.kept_wheels import WheelCache
from envbuilder.inputs.source_archives import SourceOptions
from envbuilder.network import Network
from envbuilder.signing.keys import PublicKey


@dataclass(frozen=True)
class BuildOptions:
    """What a user chooses for a build."""

    # None if everything comes from a bundle
    sources: SourceOptions | None
    network: Network
    wheels: WheelCache
    base: BaseImageOptions
    # the bundle that everything comes from, for builds without a network
    offline: Path | None = None
    # one of them must have signed the bundle
    keys: tuple[PublicKey, ...] = ()
    no_cache: bool = False
    jobs: int | None = None
    # of a project: the image of its row
    row_image: str | None = None
    # the project whose row is built: a bundle has the packages of both
    project: Environment | None = None
