"""Pulls of the small image, and the images of the engine before and after them."""

from __future__ import annotations

import subprocess

from tests.conftest import Result
from tests.integration.conftest import Toy, docker, run


def forget(name: str) -> None:
    """Remove an image under its tag and under every digest."""
    repository = name.rpartition(":")[0]
    lines = docker("images", "--digests", "--format", "{{.Repository}}|{{.Tag}}|{{.Digest}}", repository).split()
    for repo, tag, digest in (line.split("|") for line in lines):
        for known in ([f"{repo}:{tag}"] if tag != "<none>" else []) + (
            [f"{repo}@{digest}"] if digest != "<none>" else []
        ):
            subprocess.run(["docker", "image", "rm", known], capture_output=True, check=False)


def pull(toy: Toy, address: str, *more: str) -> Result:
    return run("pull", toy.id, "--matrices", str(toy.matrices), "--registry", address, *more)


def store() -> set[str]:
    """Return all images of the engine, with all their names."""
    shown = docker("images", "--digests", "--no-trunc", "--format", "{{.Repository}}:{{.Tag}} {{.Digest}} {{.ID}}")
    return set(shown.splitlines())
