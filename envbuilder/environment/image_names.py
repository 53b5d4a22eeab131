"""The names and labels of images."""

from __future__ import annotations

from envbuilder.environment.cascade import Values
from envbuilder.environment.placeholders import expand

# the environment, the digests of its inputs and lock, and the path of the bill of materials in the image
ENVIRONMENT = "envbuilder.environment"
INPUTS = "envbuilder.inputs"
LOCK = "envbuilder.lock"
BILL = "envbuilder.sbom"
# the prefix of one label per source; the name of the component follows
SOURCE = "envbuilder.source."
# of a proven image: the candidate that was validated, the level, and the digest of the report
CANDIDATE = "envbuilder.candidate"
PROVEN = "envbuilder.proven"
VALIDATION = "envbuilder.validation"


def image_name(environment: Values, registry: str) -> str:
    """Return `<registry>/<framework>:<branch>-<tag of the hardware>-<engine>-<arch>` in lower case."""
    where = environment.coordinates
    middle = expand(environment.hardware.image_tag, environment, environment.hardware.where)
    return f"{registry}/{where.framework}:{where.branch}-{middle}-{where.engine}-{where.arch}".lower()


def candidate_name(image: str) -> str:
    repository, _, tag = image.rpartition(":")
    return f"{repository}:candidate-{tag}"


def is_candidate(image: str) -> bool:
    return ":candidate-" in image
