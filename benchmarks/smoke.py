"""Measures the time of smoke runs, as a ratio to a bare loop of TRL on the same task.

    make bench-smoke

All train the same model on the same data with the same reward, sizes and number of steps, on one thread, and are
measured from the start of Python to its end. TRL has its own virtual environment with the torch and transformers of the
row, and generates with transformers. The framework adds Ray, workers and FSDP; the engine adds its own processes. At
depth engine, every row is measured whose image the docker engine has (`envbuilder build` makes them).
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from envbuilder import paths, platforms
from envbuilder.docker.engine import Docker
from envbuilder.environment import Filters, resolve
from envbuilder.environment.select import pick, select
from envbuilder.lock.index import uv_program
from envbuilder.matrix import Matrix, load
from envbuilder.matrix.model import CPU, SmokeRun
from envbuilder.validate.smoke import judge
from envbuilder.validate.smoke.job import Job, Place, smoke_job

ROW = "verl-v0.6.0-sglang"
TRL = "0.23.0"
LIMIT = 3.0
INSIDE = Path(judge.__file__).with_name("inside")


def bare(matrix: Matrix, identifier: str, folder: Path) -> tuple[float, float, list[float]]:
    """Train with TRL; return the total seconds, the seconds to the first step, and the rewards."""
    environment = resolve(matrix, pick(matrix, identifier, Filters()))
    place = paths.cache_folder() / "benchmarks" / f"trl-{TRL}-{environment.id}"
    python = place / "bin" / "python"
    if not python.exists():
        subprocess.run([uv_program(), "venv", "--quiet", "--python", sys.executable, str(place)], check=True)
        pins = [f"{name}=={environment.version(name)}" for name in ("torch", "transformers", "numpy")]
        packages = [f"trl=={TRL}", *pins, "pandas", "pyarrow"]
        settings = ["--quiet", "--python", str(python), "--exclude-newer", str(environment.exclude_newer)]
        subprocess.run([uv_program(), "pip", "install", *settings, *packages], check=True)
    recipe: SmokeRun = matrix.smoke_runs[environment.framework.name]
    job = smoke_job(environment, CPU, Place(code=str(INSIDE), folder=str(folder)), depth="trainer")
    assert isinstance(job, Job)
    numbers = (
        "steps",
        "prompts_per_step",
        "samples_per_prompt",
        "prompt_tokens",
        "response_tokens",
        "learning_rate",
        "kl_coefficient",
    )
    task = {name: getattr(recipe, name) for name in numbers} | {"code": str(INSIDE), "assets": job.document()["assets"]}
    (folder / "recipe.json").write_text(json.dumps(task), encoding="utf-8")
    script = Path(__file__).with_name("trl_grpo.py")
    began = time.perf_counter()
    command = [str(python), str(script), str(folder), str(folder / "recipe.json")]
    variables = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    seconds = time.perf_counter() - began
    if result.returncode != 0:
        sys.exit(result.stderr[-2000:])
    answer = json.loads(result.stdout.splitlines()[-1])
    return seconds, answer["first"], answer["rewards"]


def ours(identifier: str, depth: str, folder: Path) -> dict[str, Any]:
    report = folder / "report.json"
    options = ["--depth", depth, "--quiet", "--report", str(report)]
    command = [sys.executable, "-m", "envbuilder", "validate", identifier, *options]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    found: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))["training"]
    return found


def rows(matrix: Matrix) -> list[str]:
    """Return the rows that train on the CPU of this machine and whose image the docker engine has."""
    docker, here = Docker(), Filters(hardware=CPU, arch=platforms.arch())
    found = [resolve(matrix, coordinates) for coordinates in select(matrix, filters=here)]
    able = [row for row in found if isinstance(smoke_job(row, CPU, Place("", "")), Job)]
    return [row.id for row in able if docker.image(row.image_name("envbuilder")) is not None]


def main() -> None:
    matrix = load(everything=True)
    demo = f"{ROW}-cpu-{platforms.arch()}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seconds, first, rewards = bare(matrix, demo, folder)
        print(f"bare loop of TRL: reward {rewards[0]:.3f} -> {rewards[-1]:.3f}, start-up {first / seconds:.0%}")
        print(f"{'row':40}{'depth':9}{'reward':17}{'start-up':10}{'ratio':6}")
        ratios = {}
        for row, depth in [(demo, "trainer"), *((row, "engine") for row in rows(matrix))]:
            run = ours(row, depth, folder)
            ratios[row, depth] = run["seconds"] / seconds
            rise = f"{run['reward_first']:.3f} -> {run['reward_last']:.3f}"
            print(f"{row:40}{depth:9}{rise:17}{run['start_seconds'] / run['seconds']:<10.0%}{ratios[row, depth]:<6.2f}")
    print(f"limit of {demo} at depth trainer: {LIMIT}")
    sys.exit(ratios[demo, "trainer"] > LIMIT)


if __name__ == "__main__":
    main()
