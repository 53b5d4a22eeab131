"""Measures the time of a smoke run, as a ratio to a bare loop of TRL on the same task.

    make bench-smoke

Both train the same model on the same data with the same reward, sizes and number of steps, with generation by
transformers, on one thread, and are measured from the start of Python to its end. TRL is installed, with the
torch and transformers of the row, into a separate virtual environment. The framework adds Ray, workers and FSDP.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from envbuilder import paths, platforms
from envbuilder.environment import Filters, resolve
from envbuilder.environment.select import pick
from envbuilder.lock.index import uv_program
from envbuilder.matrix import Matrix, load
from envbuilder.matrix.model import CPU, SmokeRun
from envbuilder.validate.smoke import judge
from envbuilder.validate.smoke.job import Place, make_job

ROW = "verl-v0.6.0-sglang"
TRL = "0.23.0"
LIMIT = 3.0
INSIDE = Path(judge.__file__).with_name("inside")


def bare(matrix: Matrix, identifier: str, folder: Path) -> tuple[float, float, list[float]]:
    """Return the total seconds, the seconds to the first step, and the rewards."""
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
    job = make_job(recipe, environment, CPU, "trainer", Place(code=str(INSIDE), folder=str(folder)))
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


def ours(identifier: str, folder: Path) -> dict[str, object]:
    report = folder / "report.json"
    command = [
        sys.executable,
        "-m",
        "envbuilder",
        "validate",
        identifier,
        "--depth",
        "trainer",
        "-q",
        "--report",
        str(report),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    found: dict[str, object] = json.loads(report.read_text(encoding="utf-8"))["training"]
    return found


def main() -> None:
    matrix = load(everything=True)
    identifier = f"{ROW}-cpu-{platforms.arch()}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seconds, first, rewards = bare(matrix, identifier, folder)
        run = ours(identifier, folder)
    total, start = float(str(run["seconds"])), float(str(run["start_seconds"]))
    ratio = total / seconds
    rise = f"{run['reward_first']:.3f} -> {run['reward_last']:.3f}"
    print(f"{identifier}, {len(rewards)} steps, depth {run['depth']}")
    print(f"reward    bare loop {rewards[0]:.3f} -> {rewards[-1]:.3f}, smoke run {rise}")
    print(f"start-up  bare loop {first / seconds:.0%}, smoke run {start / total:.0%} until the first step was done")
    print(f"ratio     {ratio:.2f} ({total:.0f} s / {seconds:.0f} s), limit {LIMIT}")
    sys.exit(ratio > LIMIT)


if __name__ == "__main__":
    main()
