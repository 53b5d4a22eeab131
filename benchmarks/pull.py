"""Measures the time of `envbuilder pull` as a ratio to `docker pull`.

    make bench-pull

Both pull the same image of 500 MB from a registry on this machine, in turn, and the image is removed before each pull.
`envbuilder pull` also looks up the image, compares its labels with the row and reads its proof.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import time
from io import BytesIO
from pathlib import Path
from statistics import median

from envbuilder import platforms
from envbuilder.environment import Filters, resolve
from envbuilder.environment.select import pick
from envbuilder.matrix import load
from envbuilder.registry.client import MANIFEST_TYPES, Registry

ROW = "verl-v0.6.0-sglang"
MEGABYTES, LAYERS = 500, 5
ROUNDS = 5
LIMIT = 1.10
IMAGE = "application/vnd.docker.image"


def docker(*arguments: str) -> None:
    subprocess.run(["docker", *arguments], check=True, capture_output=True)


def timed(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


def publish(there: Registry, repository: str, tag: str, identifier: str) -> None:
    """Push an image of files of this system, not with the engine, which would keep its layers."""
    layers, differences = [], []
    files = (Path(folder, name) for folder, _, names in os.walk("/usr") for name in names)
    for _ in range(LAYERS):
        content = BytesIO()
        with tarfile.open(fileobj=content, mode="w") as tar:
            while content.tell() < MEGABYTES * 10**6 // LAYERS:
                tar.add(next(files))
        differences.append(f"sha256:{hashlib.sha256(content.getvalue()).hexdigest()}")
        packed = gzip.compress(content.getvalue(), 6)
        digest = there.put_blob(repository, packed)
        layers.append({"mediaType": f"{IMAGE}.rootfs.diff.tar.gzip", "digest": digest, "size": len(packed)})
    arch = {"aarch64": "arm64", "x86_64": "amd64"}[platforms.arch()]
    config = json.dumps(
        {"architecture": arch, "os": "linux", "config": {"Labels": {"envbuilder.environment": identifier}},
         "rootfs": {"type": "layers", "diff_ids": differences}}
    ).encode()  # fmt: skip
    described = {
        "mediaType": "application/vnd.docker.container.image.v1+json",
        "digest": there.put_blob(repository, config),
        "size": len(config),
    }
    document = {"schemaVersion": 2, "mediaType": MANIFEST_TYPES[1], "config": described, "layers": layers}
    there.put_manifest(repository, tag, json.dumps(document).encode(), MANIFEST_TYPES[1])


def main() -> None:
    matrix = load()
    identifier = f"{ROW}-cpu-{platforms.arch()}"
    environment = resolve(matrix, pick(matrix, identifier, Filters()))
    address = os.environ["REGISTRY"]
    image = environment.image_name(address)
    publish(Registry(address), "verl", image.rpartition(":")[2], identifier)
    commands = {
        "docker": ["docker", "pull", image],
        "envbuilder": [sys.executable, "-m", "envbuilder", "pull", identifier, "--registry", address],
    }
    taken: dict[str, list[float]] = {who: [] for who in commands}
    for _ in range(ROUNDS):
        for who, command in commands.items():
            taken[who].append(timed(command))
            shown = subprocess.run(["docker", "images", "-q", image], capture_output=True, text=True, check=True)
            docker("image", "rm", "--force", shown.stdout.strip())
    ratio = median(taken["envbuilder"]) / median(taken["docker"])
    for who, seconds in taken.items():
        print(f"{who:<11} {' '.join(f'{item:.2f}' for item in seconds)} s, median {median(seconds):.2f}")
    print(f"ratio       {ratio:.2f}, limit {LIMIT}")
    sys.exit(ratio > LIMIT)


if __name__ == "__main__":
    main()
