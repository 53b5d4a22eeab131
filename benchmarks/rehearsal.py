"""Measures the cost of a rehearsal, as ratios to the CPU environment of the same row, and to its bound on two cores.

    make bench-rehearse ID=verl-v0.8.0-sglang-a3-aarch64 GIT_MIRROR=FOLDER

Both are built and proven on the same engine with the same caches. The rehearsal has the packages of an NPU host, and
its inference engine generates.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from envbuilder import platforms
from envbuilder.environment import Catalog
from envbuilder.matrix import load

# seconds on two cores, with warm caches
BOUNDS = {"build": 70, "static": 15, "import": 90, "train": 185}


def built(identifier: str, *options: str) -> dict[str, Any]:
    """Build and prove an environment; return its part of the report."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "envbuilder", "build", identifier, "-q", "--report", str(report), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))["builds"][0]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("identifier")
    parser.add_argument("--git-mirror")
    given = parser.parse_args()
    row = Catalog(load(everything=True)).pick(given.identifier).coordinates
    sibling = f"{row.framework}-{row.branch}-{row.engine}-cpu-{platforms.arch()}"
    mirror = ["--git-mirror", given.git_mirror] if given.git_mirror else []
    rehearsal, cpu = built(given.identifier, "--rehearse", *mirror), built(sibling, *mirror)
    print(f"{given.identifier}, against {sibling}")
    for title, key, unit, scale in (("build", "seconds", "s", 1), ("image", "size", "GB", 10**9)):
        one, other = rehearsal[key] / scale, cpu[key] / scale
        print(f"{title:<6} rehearsal / cpu {one / other:5.2f}   ({one:.1f} {unit}, {other:.1f} {unit})")
    one, other = (item["validation"]["seconds"] for item in (rehearsal, cpu))
    print(f"proof  rehearsal / cpu {one / other:5.2f}   ({one:.0f} s, {other:.0f} s)")
    parts = {"build": rehearsal["seconds"] - one, **rehearsal["validation"]["times"]}
    for part, seconds in parts.items():
        print(f"{part:<6} of {BOUNDS[part]:>3} s         {seconds / BOUNDS[part]:5.2f}")
    fraction = sum(parts.values()) / sum(BOUNDS.values())
    print(f"all    of {sum(BOUNDS.values())} s         {fraction:5.2f}   (at most 1)")
    sys.exit(0 if fraction <= 1 else 1)


if __name__ == "__main__":
    main()
