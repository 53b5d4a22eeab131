"""What a user chooses for a build, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envbuilder.docker.buildkit import StepResult
from envbuilder.environment.image_names import FALLBACK
from envbuilder.inputs.base_image import BaseImageOptions
from envbuilder.inputs.kept_wheels import WheelCache
from envbuilder.inputs.source_archives import SourceOptions
from envbuilder.network import Network
from envbuilder.plan import SourceArchive
from envbuilder.validate import Report, ValidationOptions


@dataclass(frozen=True)
class BuildOptions:
    """What a user chooses for a build."""

    # None if everything comes from a bundle
    sources: SourceOptions | None
    network: Network
    wheels: WheelCache
    base: BaseImageOptions
    registry: str = "envbuilder"
    # the bundle that everything comes from, for builds without a network
    offline: Path | None = None
    no_cache: bool = False
    jobs: int | None = None
    push: bool = False
    # how far the image must be proven before it gets its name; None if it need not be
    validation: ValidationOptions | None = None


@dataclass(frozen=True)
class Built:
    """The result of a build."""

    environment: str
    image: str
    labels: Mapping[str, str]
    id: str
    size: int
    seconds: float
    # a step is None where the engine's progress did not mention it, which old engines do under load
    steps: tuple[tuple[str, StepResult | None], ...]
    sources: tuple[SourceArchive, ...]
    wheels: Mapping[str, str]
    log: Path
    digest: str | None
    # None if the image was not proven, or had been proven before
    proof: Report | None

    def report(self) -> dict[str, Any]:
        return {
            "environment": self.environment,
            "image": self.image,
            "id": self.id,
            "digest": self.digest,
            "size": self.size,
            "seconds": round(self.seconds, 1),
            "steps": [
                {
                    "title": title,
                    "seconds": round(step.seconds, 1) if step else None,
                    "cached": step.cached if step else None,
                }
                for title, step in self.steps
            ],
            "sources": [
                {"component": item.component, "kind": item.kind, "reference": item.reference, "sha256": item.sha256}
                for item in self.sources
            ],
            "wheels": dict(self.wheels),
            "fallback": self.labels.get(FALLBACK),
            "log": str(self.log),
            "validation": {**self.proof.document(), "digest": self.proof.digest} if self.proof else None,
        }
