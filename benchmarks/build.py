"""Measures how fast images are built, as ratios to a Dockerfile in the style of upstream with the same pins.

    make bench-build

Both start from the same base image, install the same system packages, the same versions of the same packages and the
same sources. `cold` is without any build cache: the build cache of the engine is pruned, so use a separate engine
and give --prune. Bytes are those that the bridge of the engine transferred to the build.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from envbuilder import network, platforms
from envbuilder.docker.client import build_command
from envbuilder.environment import Catalog, Environment
from envbuilder.inputs.other_indexes import within_reach
from envbuilder.inputs.source_archives import SourceOptions, obtain
from envbuilder.lock.index import Index
from envbuilder.matrix import load
from envbuilder.plan import make_plan

ROW = "verl-v0.6.0-sglang"
PIN, OTHER = "version: 4.56.1", "version: 4.56.2"  # transformers
BASE = f"envbuilder/base:bookworm-py3.11-{platforms.arch()}"
COLD, CHANGED = "cold", "transformers changed"
LIMITS = {COLD: 4.5, CHANGED: 30.0}
# where torch of the package index, which is made for CUDA, replaces the row's: both ways download and write 3 GB more,
# and that takes most of the time of ours
COLD_WITH_CUDA = 2.2
UNCHANGED_SECONDS = 1.5
BRIDGE = Path("/sys/class/net/docker0/statistics/tx_bytes")


@dataclass(frozen=True)
class Reading:
    seconds: float
    megabytes: float


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True).stdout


def measured(command: list[str], variables: dict[str, str] | None = None) -> Reading:
    before, began = _carried(), time.perf_counter()
    result = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **(variables or {})}
    )
    seconds = time.perf_counter() - began
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)[:200]} failed:\n{(result.stdout + result.stderr)[-4000:]}")
    return Reading(seconds, (_carried() - before) / 10**6)


def _carried() -> int:
    return int(BRIDGE.read_text()) if BRIDGE.exists() else 0


# --- the two ways ----------------------------------------------------------------------------------------


def ours(identifier: str, image: str, matrices: Path | None = None) -> Reading:
    overlay = ["--matrices", str(matrices)] if matrices else []
    registry = image.partition("/")[0]
    return measured(
        [
            sys.executable,
            "-m",
            "envbuilder",
            "build",
            identifier,
            *overlay,
            "--registry",
            registry,
            "-q",
            "--no-validate",
        ]
    )


def upstream(context: Path, image: str, environment: Environment) -> Reading:
    """Build the same packages in the order of the documents: torch, those of the engine, pins that others overwrite."""
    packages = environment.packages
    first = [line for line in packages.pins if line.startswith("torch==")]
    # on x86_64 its metadata asks for a build of torch that the package index does not have
    plugin = [line for line in packages.pins if line.startswith("torch-npu==")]
    last = [line for line in packages.pins if line.startswith(("transformers==", "triton-ascend=="))]
    rest = [line for line in packages.pins if line not in {*first, *plugin, *last}]
    arguments = {
        "BASE_IMAGE": BASE,
        "SYSTEM_PACKAGES": " ".join(environment.lists["system_packages"].values),
        "FIRST": " ".join(first),
        "PLUGIN": " ".join(plugin),
        "REQUIREMENTS": " ".join((*rest, *packages.requirements)),
        "LAST": " ".join(last),
    }
    secrets = network.host_network().secrets()
    (context.parent / "ca").write_text(secrets["ca"])
    command = [*build_command(), "--tag", image, "--secret", "id=network,env=NETWORK"]
    command += [
        "--secret",
        f"id=ca,src={context.parent / 'ca'}",
        "--file",
        str(Path(__file__).with_name("pip.Dockerfile")),
    ]
    for name, value in arguments.items():
        command += ["--build-arg", f"{name}={value}"]
    return measured([*command, str(context)], {"DOCKER_BUILDKIT": "1", "NETWORK": secrets["network"]})


def pip_context(folder: Path, environment: Environment) -> Path:
    context = folder / "context"
    context.mkdir(parents=True)
    locked = environment.lock.versions if environment.lock else {}
    (context / "constraints.txt").write_text("".join(f"{name}=={version}\n" for name, version in locked.items()))
    origin = SourceOptions("auto", Index(None))
    names = {environment.framework.component: "framework", environment.engine.engine: "engine"}
    for component in make_plan(environment).components:
        source = obtain(environment, component, origin, print)
        (folder / component).mkdir()
        subprocess.run(["tar", "--extract", "--file", source.archive, "--directory", folder / component], check=True)
        root = folder / component if source.strip == 0 else next((folder / component).iterdir())
        at = root / "python" if (root / "python").is_dir() else root
        at.rename(context / names[component])
    return context


# --- the run ---------------------------------------------------------------------------------------------


def pinned(identifier: str, matrices: Path | None = None) -> Environment:
    """Return the row as a build installs it: with packages of the package index where another index is out of reach."""
    environment = Catalog(load(matrices, everything=True)).pick(identifier)
    return within_reach(environment, network.host_network().ca_bundle, print)


def changed_matrices(folder: Path, identifier: str) -> Path:
    """Write the row with another version of transformers, and lock it."""
    target = folder / "frameworks/verl/v0.6.0.yaml"
    target.parent.mkdir(parents=True)
    text = load().files["frameworks/verl/v0.6.0.yaml"].path.read_text(encoding="utf-8")
    assert PIN in text
    target.write_text(text.replace(PIN, OTHER), encoding="utf-8")
    command = [sys.executable, "-m", "envbuilder", "lock", identifier, "--matrices", str(folder), "-q"]
    subprocess.run(command, check=True)
    return folder


def layers(image: str) -> list[str]:
    found: list[str] = json.loads(docker("image", "inspect", image))[0]["RootFS"]["Layers"]
    return found


def size(image: str) -> int:
    return int(json.loads(docker("image", "inspect", image))[0]["Size"])


def installed(image: str) -> set[str]:
    """Return the names and versions of the installed packages, without packaging tools."""
    shown = docker(
        "run", "--rm", image, "python3", "-m", "pip", "list", "--format", "freeze", "--disable-pip-version-check"
    )
    return {
        line.lower().replace("_", "-") for line in shown.split() if not re.match(r"(pip|uv|setuptools|wheel)==", line)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--prune", action="store_true", help="prune the build cache of the engine, which this needs")
    if not parser.parse_args().prune:
        parser.error("this prunes the build cache of the engine: give --prune on a separate engine")
    identifier = f"{ROW}-cpu-{platforms.arch()}"
    environment = pinned(identifier)
    subprocess.run([sys.executable, "-m", "envbuilder", "base", "-q"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory(prefix="benchmark-") as name:
        folder = Path(name)
        # no kept wheels and no warm cache; the sources are downloaded beforehand for both
        context = pip_context(folder / "pip", environment)
        changed = changed_matrices(folder / "changed", identifier)
        other = pinned(identifier, changed)
        os.environ["ENVBUILDER_WHEEL_CACHE"] = str(folder / "wheels")
        mine, theirs = environment.image_name("bench-ours"), "bench-pip/verl:cold"
        readings: dict[str, tuple[Reading, Reading]] = {}
        docker("builder", "prune", "--all", "--force")
        pip_cold = upstream(context, theirs, environment)
        docker("builder", "prune", "--all", "--force")
        cold = ours(identifier, mine)
        readings[COLD] = (pip_cold, cold)
        before = layers(mine)
        # the engine still writes the image to the disk during the first
        unchanged = statistics.median(ours(identifier, mine).seconds for _ in range(3))
        assert layers(mine) == before, "an unchanged rebuild made a layer"
        difference = installed(theirs) ^ installed(mine)
        sizes = size(theirs), size(mine)
        rebuilt = ours(identifier, mine, changed)
        constraints = context / "constraints.txt"
        constraints.write_text(constraints.read_text().replace(PIN.split()[1], OTHER.split()[1]))
        # the system packages are a separate layer in theirs too, which stays cached
        readings[CHANGED] = (upstream(context, "bench-pip/verl:changed", other), rebuilt)
    limits = LIMITS | ({COLD: COLD_WITH_CUDA} if environment.fallback else {})
    _print(readings, limits)
    fraction = unchanged / UNCHANGED_SECONDS
    print(f"unchanged              of {UNCHANGED_SECONDS} s  {fraction:5.2f}   no new layer")
    print(f"image size             ours / pip     {sizes[1] / sizes[0]:5.2f}   (at most 1)")
    print(f"installed              {len(difference)} packages differ {' '.join(sorted(difference)[:8])}")
    held = [pip.seconds / own.seconds >= limits[what] for what, (pip, own) in readings.items()]
    sys.exit(0 if all(held) and fraction < 1 and sizes[1] <= sizes[0] else 1)


def _print(readings: dict[str, tuple[Reading, Reading]], limits: dict[str, float]) -> None:
    for what, (pip, own) in readings.items():
        ratio = pip.seconds / own.seconds
        times = f"{pip.seconds:.0f} s, {own.seconds:.1f} s"
        print(f"{what:<22} pip / ours {ratio:7.1f}   (at least {limits[what]:g}; {times})")
        ratio = pip.megabytes / max(own.megabytes, 0.1)
        print(f"  downloaded           pip / ours {ratio:7.1f}   ({pip.megabytes:.0f} MB, {own.megabytes:.0f} MB)")


if __name__ == "__main__":
    main()
