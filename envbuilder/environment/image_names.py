"""The names and labels of images, and the images that the project of a framework publishes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from envbuilder import versions
from envbuilder.environment.cascade import Values
from envbuilder.errors import HostError
from envbuilder.language import tr
from envbuilder.matrix.model import UpstreamTag

# the environment, the digests of its inputs and lock, and the path of the bill of materials in the image
ENVIRONMENT = "envbuilder.environment"
INPUTS = "envbuilder.inputs"
LOCK = "envbuilder.lock"
BILL = "envbuilder.sbom"
# the prefix of one label per source; the name of the component follows
SOURCE = "envbuilder.source."
# of a project: its name, the digests of its lock and of what else its file adds, and those of its own source trees
PROJECT = "envbuilder.project"
PROJECT_LOCK = "envbuilder.project.lock"
PROJECT_ADDITIONS = "envbuilder.project.additions"
PROJECT_SOURCE = "envbuilder.project.source."
# of a rehearsal: the stand-in of CANN
REHEARSAL = "envbuilder.rehearsal"
# of an image with builds of the package index in place of those of another index: these builds
FALLBACK = "envbuilder.fallback"
# of a proven image: the candidate that was validated, the level, and the digest of the report
CANDIDATE = "envbuilder.candidate"
PROVEN = "envbuilder.proven"
VALIDATION = "envbuilder.validation"
# a published image has its proof beside it instead, so that its digest depends on its content alone
OF_THE_PROOF = (CANDIDATE, PROVEN, VALIDATION)


def refuse_rehearsal(image: str, labels: Mapping[str, str], *, pulled: bool) -> None:
    """Raise an error if an image is a rehearsal, as it does not compute on an NPU."""
    if REHEARSAL in labels:
        base = labels[REHEARSAL]
        raise HostError(
            tr("{image} is a rehearsal on {base}, and cannot be pulled", image=image, base=base)
            if pulled
            else tr("{image} is a rehearsal on {base}, and cannot be published", image=image, base=base),
            hint=tr(
                "envbuilder build {environment} builds the image for NPUs", environment=labels.get(ENVIRONMENT, "")
            ),
        )


def candidate_name(image: str) -> str:
    repository, _, tag = image.rpartition(":")
    return f"{repository}:candidate-{tag}"


def is_candidate(image: str) -> bool:
    return ":candidate-" in image


def proven_name(candidate: str) -> str:
    """Return the name that a candidate gets when it is proven."""
    return candidate.replace(":candidate-", ":")


class UpstreamImage(NamedTuple):
    name: str
    # whether the release, the engine and the chips are those of the environment
    is_of_row: bool
    differences: tuple[str, ...]


def upstream_images(environment: Values) -> list[UpstreamImage]:
    """Return all published images of the framework: first those of the row, then by the number of differences."""
    published = environment.framework.upstream
    found = [_compared(environment, published.image, tag) for tag in published.tags] if published else []
    return sorted(found, key=lambda item: (not item.is_of_row, len(item.differences)))


def _compared(environment: Values, image: str, tag: UpstreamTag) -> UpstreamImage:
    release = environment.framework.component
    theirs = {"engine": tag.engine, "chips": tag.family, release: "of its development branch", **tag.versions}
    own = {"engine": environment.coordinates.engine, "chips": environment.hardware.family}
    ours = {name: own.get(name) or environment.version(name) or tr("none") for name in theirs}
    different = {name for name in theirs if not versions.same(theirs[name], ours[name])}
    return UpstreamImage(
        name=f"{image}:{tag.tag}",
        is_of_row=not different & {"engine", "chips", release},
        differences=tuple(
            tr("{name} {theirs}, not {ours}", name=name, theirs=tr(theirs[name]), ours=ours[name])
            for name in theirs
            if name in different
        ),
    )
