"""What images are called, what they say of themselves in labels, and how content is named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from envbuilder.matrix import Matrix
from envbuilder.resolve import Environment
from envbuilder.values import expand

# the folder that everything is installed from where nothing outside can be reached
OFFLINE = "offline"
PLATFORMS = {"aarch64": "linux/arm64", "x86_64": "linux/amd64"}

# the labels of an image: the row, what it was built from, and where its bill of materials lies in it
ENVIRONMENT = "envbuilder.environment"
INPUTS = "envbuilder.inputs"
LOCK = "envbuilder.lock"
BILL = "envbuilder.sbom"
# of a proven one: the image that was proven, how far, and the digest of the result
CANDIDATE = "envbuilder.candidate"
PROVEN = "envbuilder.proven"
VALIDATION = "envbuilder.validation"


def image_name(matrix: Matrix, environment: Environment, registry: str) -> str:
    """`<registry>/<framework>:<branch>-<what the hardware says>-<engine>-<arch>`, in lower case as registries want."""
    where = environment.coordinates
    middle = expand(environment.hardware.image_tag, matrix, environment, environment.hardware.where)
    return f"{registry}/{where.framework}:{where.branch}-{middle}-{where.engine}-{where.arch}".lower()


def candidate_name(image: str) -> str:
    repository, _, tag = image.rpartition(":")
    return f"{repository}:candidate-{tag}"


def is_candidate(image: str) -> bool:
    return ":candidate-" in image


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def digest_of_document(document: Mapping[str, Any]) -> str:
    return digest_of(json.dumps(document, sort_keys=True).encode())
