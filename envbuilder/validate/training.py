"""Carries out a smoke run on a target, follows its log and judges the result."""

from __future__ import annotations

import math
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

from envbuilder.language import english, tr
from envbuilder.matrix.model import GPU, NPU
from envbuilder.progress import Progress
from envbuilder.trainlog import read_steps
from envbuilder.validate.follow import follow
from envbuilder.validate.report import Check, TrainingResult
from envbuilder.validate.smoke.job import Job
from envbuilder.validate.smoke.judge import (
    Curves,
    curves_of,
    judge,
    judge_device,
    judge_engine,
    judge_probabilities,
)
from envbuilder.validate.target import Target

TITLE = "training"
# a run is stopped after this many times the minutes of its recipe
_PATIENCE = 4
_BARS = "▁▂▃▄▅▆▇█"


def train(target: Target, job: Job, log: Path, progress: Progress) -> tuple[list[Check], TrainingResult]:
    """Run a job on a target, write its output to a log, and return the checks and the metrics."""
    recipe, started = job.recipe, time.monotonic()
    limit = 60 * _PATIENCE * recipe.minutes[job.depth]
    progress.said(TITLE, tr("starting {trainer}: imports, workers, models", trainer=recipe.trainer))
    times: list[float] = []

    def seen(line: str, text: str) -> None:
        if curves_of(read_steps(line), recipe).steps:
            times.append(time.monotonic() - started)
            _show_step(curves_of(read_steps(text), recipe), recipe.steps, progress)

    ended = follow(target, "train.py", job.document(), job.variables, limit, log, seen)
    curves = curves_of(read_steps(ended.text), recipe)
    verdicts = [ended.verdict(english("trainer")), *judge(curves, recipe)]
    if job.depth == "engine":
        verdicts.append(judge_engine(job.fallbacks, ended.text))
    if job.probability_limit is not None:
        verdicts.append(judge_probabilities(curves, job.probability_limit))
    if job.device in {NPU, GPU}:
        verdicts.append(judge_device(curves, recipe, ended.text))
    checks = [Check("train", verdict.name, verdict.status, verdict.message) for verdict in verdicts]
    return checks, _training(job, curves, time.monotonic() - started, times, log)


def _show_step(curves: Curves, wanted: int, progress: Progress) -> None:
    rewards = curves.values["reward"]
    line = tr(
        "step {number} of {total}, reward {reward} {curve}",
        number=curves.steps[-1],
        total=wanted,
        reward=f"{rewards[-1]:.3f}",
        curve=spark(rewards),
    )
    # a noted line stays on the screen, and one for every step would be too many
    if curves.steps[-1] % 8 == 0 or curves.steps[-1] in {1, wanted}:
        progress.noted(TITLE, line)
    else:
        progress.said(TITLE, line)


def spark(values: tuple[float, ...]) -> str:
    """Return a curve as one line of text, with a space for a value that is not finite."""
    finite = [value for value in values if math.isfinite(value)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    reach = (high - low) or 1.0
    top = len(_BARS) - 1
    return "".join(_BARS[int((value - low) / reach * top)] if math.isfinite(value) else " " for value in values)


def _training(job: Job, curves: Curves, seconds: float, times: list[float], log: Path) -> TrainingResult:
    """Return the metrics of a run; `times` are the seconds until each step was logged."""
    recipe = job.recipe
    first, last = curves.ends(recipe.window) or (None, None)
    # a framework may not log how long a step takes
    between = median(later - earlier for earlier, later in pairwise(times)) if len(times) > 1 else None
    return TrainingResult(
        device=job.device,
        depth=job.depth,
        backend=job.backend,
        devices=job.devices,
        trainer=recipe.trainer,
        rollout=job.rollout,
        draws=job.draws,
        ours=job.ours,
        steps=len(curves.steps),
        steps_wanted=recipe.steps,
        curves=curves.values,
        reward_margin=float(recipe.reward_margin),
        reward_first=first,
        reward_last=last,
        seconds=round(seconds, 1),
        start_seconds=round(times[0], 1) if times else None,
        step_seconds=curves.step_seconds or between,
        peak_memory_gb=curves.peak_memory,
        log=str(log),
    )
