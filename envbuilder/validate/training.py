"""Carries out a smoke run on a target, follows its log and judges the result."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from envbuilder.matrix.model import NPU
from envbuilder.progress import Progress
from envbuilder.trainlog import read_steps
from envbuilder.validate.report import Check, TrainingResult
from envbuilder.validate.smoke.job import Job
from envbuilder.validate.smoke.judge import Curves, Verdict, curves_of, judge, judge_device
from envbuilder.validate.target import Target

TITLE = "training"
_PATIENCE = 4
_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class SmokeResult:
    checks: tuple[Check, ...]
    training: TrainingResult


def train(target: Target, job: Job, log: Path, progress: Progress) -> SmokeResult:
    """Run a job on a target, write its output to a log, and return the checks and the metrics."""
    recipe, started = job.recipe, time.monotonic()
    limit = 60 * _PATIENCE * recipe.minutes[job.depth]
    folder = Path(target.place.folder)
    command = ["python3", f"{target.place.code}/train.py", str(folder.with_name("job.json"))]
    # Python reads PYTHONPATH before train.py can set it
    early = {name: value for name, value in job.variables.items() if name == "PYTHONPATH"}
    progress.said(TITLE, f"starting {recipe.trainer}: imports, workers, models")
    process = target.start(command, early, json.dumps(job.document()))
    assert process.stdout is not None  # noqa: S101
    late = threading.Event()

    def give_up() -> None:
        late.set()
        target.stop(process)

    timer = threading.Timer(limit, give_up)
    timer.start()
    first: float | None = None
    text = ""
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with log.open("w", encoding="utf-8") as file:
            for line in process.stdout:
                file.write(line)
                text += line
                steps = curves_of(read_steps(line), recipe).steps
                if steps:
                    first = first or time.monotonic() - started
                    _show_step(curves_of(read_steps(text), recipe), recipe.steps, progress)
        code = process.wait()
    except BaseException:
        target.stop(process)
        raise
    finally:
        timer.cancel()
    curves = curves_of(read_steps(text), recipe)
    verdicts = [_ended(code, text, limit if late.is_set() else None), *judge(curves, recipe)]
    if job.device == NPU:
        verdicts.append(judge_device(curves, recipe, text))
    seconds = time.monotonic() - started
    return SmokeResult(tuple(_checks(verdicts)), _training(job, curves, seconds, first, log))


def _show_step(curves: Curves, wanted: int, progress: Progress) -> None:
    rewards = curves.values["reward"]
    line = f"step {curves.steps[-1]} of {wanted}, reward {rewards[-1]:.3f} {spark(rewards)}"
    # a noted line stays on the screen, and one for every step would be too many
    if curves.steps[-1] % 8 == 0 or curves.steps[-1] in {1, wanted}:
        progress.noted(TITLE, line)
    else:
        progress.said(TITLE, line)


def spark(values: tuple[float, ...]) -> str:
    """Return a curve as one line of text."""
    low, high = min(values), max(values)
    reach = (high - low) or 1.0
    return "".join(_BARS[int((value - low) / reach * (len(_BARS) - 1))] for value in values)


def _ended(code: int, text: str, limit: float | None) -> Verdict:
    if limit is not None:
        return Verdict("process", False, f"the trainer was stopped after {limit / 60:.0f} minutes")
    if code == 0:
        return Verdict("process", True, "the trainer ended by itself")
    # a shell adds 128 to the number of a signal, and subprocess negates it
    signal = -code if code < 0 else code - 128
    how = f"was killed by signal {signal}" if signal > 0 else f"ended with code {code}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line]
    last = (errors or lines or ["it printed nothing"])[-1]
    return Verdict("process", False, f"the trainer {how}: {last[-300:]}")


def _checks(verdicts: list[Verdict]) -> Iterator[Check]:
    for verdict in verdicts:
        yield Check("train", verdict.name, "passed" if verdict.passed else "failed", verdict.message)


def _training(job: Job, curves: Curves, seconds: float, first: float | None, log: Path) -> TrainingResult:
    recipe = job.recipe
    ends = curves.ends(recipe.window)
    return TrainingResult(
        device=job.device,
        depth=job.depth,
        devices=job.devices,
        trainer=recipe.trainer,
        rollout=job.rollout,
        ours=job.ours,
        steps=len(curves.steps),
        steps_wanted=recipe.steps,
        curves=curves.values,
        reward_margin=float(recipe.reward_margin),
        reward_first=ends[0] if ends else None,
        reward_last=ends[1] if ends else None,
        seconds=round(seconds, 1),
        start_seconds=round(first, 1) if first else None,
        step_seconds=curves.step_seconds,
        peak_memory_gb=curves.peak_memory,
        log=str(log),
    )
