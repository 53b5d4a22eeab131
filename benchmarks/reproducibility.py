"""Measures whether two engines publish the same image of one row from the same inputs.

    make bench-same

Each engine builds without a cache and pushes its image; the images are compared in the registry. Equal layers are
transferred and stored once.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

from benchmarks.build import BASE
from envbuilder import platforms
from envbuilder.environment import Catalog
from envbuilder.files import digest_of_file
from envbuilder.matrix import load
from envbuilder.registry.client import Registry
from envbuilder.registry.published import Published, look_up
from envbuilder.registry.reference import Reference

MOST_SHOWN = 10


def published(engine: str, identifier: str, prefix: str) -> Published:
    """Build a row on an engine; return the image that it pushes under a prefix."""
    os.environ["DOCKER_HOST"] = engine
    for words in (["build", "--no-cache", "--no-validate"], ["push"]):
        command = [sys.executable, "-m", "envbuilder", *words, identifier, "--registry", prefix, "-q"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    name = Reference.parse(Catalog(load(everything=True)).pick(identifier).image_name(prefix))
    return look_up(Registry(name.api), name, platforms.arch())


def give_base(source: str, target: str) -> None:
    """Copy the base image to another engine: mmdebstrap makes a different one each time."""
    command = f"docker --host {source} save {BASE} | docker --host {target} load"
    subprocess.run(["bash", "-o", "pipefail", "-c", command], check=True, stdout=subprocess.DEVNULL)


def different_files(one: Published, two: Published) -> Iterator[str]:
    """Yield the paths that differ, with the number of their layer."""
    for number, (ours, theirs) in enumerate(zip(one.manifest.layers, two.manifest.layers, strict=True)):
        if ours.digest != theirs.digest:
            first, second = files_of(one, ours.digest), files_of(two, theirs.digest)
            yield from (
                f"layer {number}: {path}"
                for path in sorted({*first, *second})
                if first.get(path) != second.get(path)
            )  # fmt: skip


def files_of(image: Published, layer: str) -> dict[str, str]:
    found = {}
    with TemporaryFile() as file:
        Registry(image.reference.api).download(image.reference.repository, layer, file, 2**40)
        file.seek(0)
        with tarfile.open(fileobj=file) as tar:
            for entry in tar:
                content = tar.extractfile(entry) if entry.isreg() else None
                about = f"{entry.type!r} {entry.mode:o} {entry.uid} {entry.gid} {entry.linkname}"
                found[entry.name] = f"{about} {digest_of_file(content) if content else ''}"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("identifier", nargs="?", default=f"verl-v0.6.0-sglang-cpu-{platforms.arch()}")
    parser.add_argument("--engines", nargs=2, required=True, metavar="DOCKER_HOST")
    given = parser.parse_args()
    first, second = given.engines
    one = published(first, given.identifier, f"{os.environ['REGISTRY']}/one")
    give_base(first, second)
    # without the records of the first push
    with TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = str(Path(folder))
        two = published(second, given.identifier, f"{os.environ['REGISTRY']}/two")
    equal = sum(
        ours.digest == theirs.digest for ours, theirs in zip(one.manifest.layers, two.manifest.layers, strict=True)
    )
    print(f"equal layers  {equal} of {len(one.manifest.layers)}, {one.size / 10**6:.0f} MB as they are downloaded")
    configs = [json.loads(Registry(item.reference.api).blob(item.reference.repository, item.id)) for item in (one, two)]
    for key in sorted({*configs[0], *configs[1]} - {"rootfs"}):
        if configs[0].get(key) != configs[1].get(key):
            print(f"  configuration: {key}")
    for line in list(different_files(one, two))[:MOST_SHOWN]:
        print(f"  {line}")
    print(f"digests       {one.digest} and {two.digest}   (must be equal)")
    sys.exit(0 if one.digest == two.digest else 1)


if __name__ == "__main__":
    main()
