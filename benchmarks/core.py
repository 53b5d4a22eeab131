"""Measures the speed of the core, as ratios within one run.

    python -m benchmarks.core

Start-up is compared with an interpreter that does nothing. Rendering and checking are measured on generated matrices
of 100, 1,000 and 10,000 rows, per row: 1.0 is linear growth.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from envbuilder import paths
from envbuilder.check import check_environment
from envbuilder.environment import Coordinates, resolve
from envbuilder.environment.coordinates import environments
from envbuilder.matrix import Matrix, load
from envbuilder.plan import make_plan
from envbuilder.render import render_dockerfile

STARTUP_LIMIT = 8.0
SIZES = (100, 1_000, 10_000)
ROUNDS = 15
PROGRAM = str(Path(sys.executable).with_name("envbuilder"))
NOTHING = [sys.executable, "-c", "pass"]


def seconds(action: Callable[[], object], rounds: int = 1) -> float:
    """Return the time of the fastest round, which other load on the machine affects least."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - start)
    return best


def cpu_seconds(command: Sequence[str]) -> float:
    """Return the least CPU time of several runs of a program, which other load affects less than its duration."""
    best = float("inf")
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def startup() -> float:
    ratio = cpu_seconds([PROGRAM, "list"]) / cpu_seconds(NOTHING)
    print(f"list / python -c pass, CPU time {ratio:5.1f}   (limit {STARTUP_LIMIT:.0f})")
    return ratio


def offline_commands() -> None:
    """Measure the commands that check all environments offline; the limit is two seconds."""
    nothing = seconds(lambda: subprocess.run(NOTHING, check=True), ROUNDS)
    for arguments in (["check", "-qq"], ["lock", "--all", "--check"]):
        command = [PROGRAM, *arguments]
        spent = seconds(lambda command=command: subprocess.run(command, check=True, capture_output=True), 3)  # type: ignore[misc]
        print(f"{' '.join(arguments):<24} / python -c pass  {spent / nothing:6.1f}   of two seconds {spent / 2:5.2f}")


def whole_matrix() -> None:
    matrix = load(everything=True)
    everything = environments(matrix)
    nothing = seconds(lambda: subprocess.run(NOTHING, check=True), ROUNDS)
    rendering = seconds(lambda: [_render(matrix, item) for item in everything], 3)
    checking = seconds(lambda: [check_environment(resolve(matrix, item)) for item in everything], 3)
    print(f"render all {len(everything)} / python -c pass  {rendering / nothing:6.1f}")
    print(f"check all {len(everything)} / python -c pass   {checking / nothing:6.1f}")


def _render(matrix: Matrix, coordinates: Coordinates) -> str:
    return render_dockerfile(make_plan(resolve(matrix, coordinates)))


def growth() -> None:
    """Print the time per row at each size, relative to the smallest."""
    print("rows      load   render    check   (time per row, the smallest matrix = 1.0)")
    first: list[float] = []
    for size in SIZES:
        each = _per_row(size)
        first = first or each
        print(f"{size:6d}" + "".join(f"  {now / before:6.2f} " for now, before in zip(each, first, strict=True)))


def _per_row(size: int) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder), size)
        loading = seconds(lambda: load(Path(folder), everything=True))
        matrix = load(Path(folder), everything=True)
        rows = [item for item in environments(matrix) if not matrix.hardware[item.hardware].cpu_only]
        rendering = seconds(lambda: [_render(matrix, item) for item in rows])
        checking = seconds(lambda: [check_environment(resolve(matrix, item)) for item in rows])
    return [spent / len(rows) for spent in (loading, rendering, checking)]


def generate(folder: Path, rows: int) -> None:
    """Write a complete matrix with this number of rows: copies of one branch with one hardware."""
    shutil.copytree(paths.matrices(), folder, dirs_exist_ok=True)
    branches = folder / "frameworks" / "verl"
    text = (branches / "v0.6.0.yaml").read_text(encoding="utf-8")
    text = text.replace("hardware: [a2, a3]", "hardware: [a3]")
    for path in folder.glob("frameworks/*/*.yaml"):
        path.unlink()
    for number in range(rows):
        (branches / f"v100.{number}.0.yaml").write_text(text, encoding="utf-8")


def main() -> int:
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp()
    # modules are compiled, as in an installed package
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp()
    ratio = startup()
    offline_commands()
    whole_matrix()
    growth()
    return 0 if ratio <= STARTUP_LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
