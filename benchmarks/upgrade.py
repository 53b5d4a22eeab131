"""Measures the download of an upgrade between neighbouring rows, as a ratio to images that pip makes in one step.

    make bench-upgrade

Both images of a row have the same base image and packages; the style of upstream installs them with pip in one RUN. The
images are pushed to a registry on this machine. An upgrade downloads the compressed layers that the image of the row
before does not have. The limit is for all upgrades together, which were measured at 0.60: each of these rows changes
large packages.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.build import docker, ours, pip_context, upstream
from envbuilder import platforms
from envbuilder.environment import Catalog
from envbuilder.matrix import load
from envbuilder.registry.client import Registry

BRANCHES = ["v0.7.1", "v0.8.0", "v0.9.0", "v0.9.1"]
LIMIT = 0.65


def layers(address: str, image: str) -> dict[str, int]:
    """Push an image, and return the sizes of its layers by their digests."""
    docker("push", image)
    repository, _, tag = image.removeprefix(f"{address}/").rpartition(":")
    return {item["digest"]: item["size"] for item in Registry(address).manifest(repository, tag).document["layers"]}


def downloaded(before: dict[str, int], after: dict[str, int]) -> int:
    return sum(size for digest, size in after.items() if digest not in before)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("branches", nargs="*", default=BRANCHES)
    branches, address = parser.parse_args().branches, os.environ["REGISTRY"]
    catalog = Catalog(load(everything=True))
    subprocess.run([sys.executable, "-m", "envbuilder", "base", "-q"], check=True, stdout=subprocess.DEVNULL)
    print(f"{'upgrade':<18} {'ours':>9} {'pip':>9} {'ratio':>6}")
    sums, before = [0, 0], None
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        for old, branch in zip(["", *branches], branches, strict=False):
            environment = catalog.pick(f"verl-{branch}-sglang-cpu-{platforms.arch()}")
            mine, theirs = environment.image_name(address), f"{address}/pip:{branch}"
            ours(environment.id, mine)
            upstream(pip_context(Path(name) / branch, environment), theirs, environment)
            after = (layers(address, mine), layers(address, theirs))
            docker("image", "rm", mine, theirs)
            if before:
                sizes = [downloaded(*pair) for pair in zip(before, after, strict=True)]
                sums = [total + size for total, size in zip(sums, sizes, strict=True)]
                megabytes = (f"{size / 10**6:6.0f} MB" for size in sizes)
                print(f"{old} -> {branch}".ljust(18), *megabytes, f"{sizes[0] / sizes[1]:6.2f}", flush=True)
            before = after
    ratio = sums[0] / sums[1]
    print(f"{'all':<18}", *(f"{size / 10**6:6.0f} MB" for size in sums), f"{ratio:6.2f}   (at most {LIMIT})")
    sys.exit(0 if ratio <= LIMIT else 1)


if __name__ == "__main__":
    main()
