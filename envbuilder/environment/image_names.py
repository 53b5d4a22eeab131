"""What images are called, and the labels they carry."""

from __future__ import annotations

from envbuilder.environment.cascade import Values
from envbuilder.environment.placeholders import expand

# the environment, what it was built from, and the path of the bill of materials in the image
ENVIRONMENT = "envbuilder.environment"
INPUTS = "envbuilder.inputs"
LOCK = "envbuilder.lock"
BILL = "envbuilder.sbom"
# one for each source, with the component behind it
SOURCE = "envbuilder.source."
# of a proven image: the candidate that was proven, the level, and the digest of the report
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
