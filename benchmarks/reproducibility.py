"""Measures how much two builds of one row differ, made by two engines that share nothing but the inputs.

    make bench-same

Equal layers are transferred and stored once, whoever builds them.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from benchmarks.build import BASE
from envbuilder import platforms
from envbuilder.docker.contents import CONTENT, COVERED, FIRST, SECOND, TIME, Contents, compare_contents, contents_of
from envbuilder.docker.engine import Docker
from envbuilder.environment import Catalog
from envbuilder.matrix import load

REGISTRY = "bench-same"
TITLES = {
    CONTENT: "other content",
    FIRST: "only in the first",
    SECOND: "only in the second",
    TIME: "another time alone",
    COVERED: "in a layer alone",
}
# of the bytes in the files of the image
MOST_DIFFERENT = 0.001


def built(engine: str, identifier: str) -> Contents:
    os.environ["DOCKER_HOST"] = engine
    words = ["build", identifier, "--registry", REGISTRY, "--no-cache", "--no-validate", "-q"]
    subprocess.run([sys.executable, "-m", "envbuilder", *words], check=True, stdout=subprocess.DEVNULL)
    image = Catalog(load(everything=True)).pick(identifier).image_name(REGISTRY)
    return contents_of(Docker(), image)


def give_base(source: str, target: str) -> None:
    """Give the base image to another engine: debootstrap makes another one each time, unlike a registry's."""
    command = f"docker --host {source} save {BASE} | docker --host {target} load"
    subprocess.run(["bash", "-o", "pipefail", "-c", command], check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("identifier", nargs="?", default=f"verl-v0.6.0-sglang-cpu-{platforms.arch()}")
    parser.add_argument("--engines", nargs=2, required=True, metavar="DOCKER_HOST")
    given = parser.parse_args()
    first, second = given.engines
    one = built(first, given.identifier)
    give_base(first, second)
    two = built(second, given.identifier)
    found = compare_contents(one, two)
    total = sum(item.size for item in one.files.values())
    for how, title in TITLES.items():
        items = found.of(how)
        size = sum(item.size for item in items)
        print(f"{title:<20} {len(items):6} of {found.files[0]} files  {size / total:8.5f} of {total / 10**6:.0f} MB")
        for item in items[:5]:
            print(f"  {item.path}  {item.size} bytes")
    print(f"equal layers         {found.equal_layers:6} of {found.layers[0]}")
    different = sum(item.size for item in found.differences)
    print(f"different bytes      {different / total:8.5f}   (at most {MOST_DIFFERENT})")
    sys.exit(0 if different / total <= MOST_DIFFERENT else 1)


if __name__ == "__main__":
    main()
