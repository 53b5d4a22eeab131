"""Whether a training run trained: judged by what the framework itself logged."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from envbuilder.trainlog import Step


@dataclass(frozen=True)
class Recipe:
    """What a run is asked to do and must reach; recipe.yaml says what each value is for."""

    steps: int
    window: int
    reward_margin: float
    metrics: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Verdict:
    """One question about a run, and the answer."""

    name: str
    passed: bool
    message: str


@dataclass(frozen=True)
class Curves:
    """The metrics of a run by the names of the recipe, one value for each step that logged it."""

    steps: tuple[int, ...]
    values: Mapping[str, tuple[float, ...]]

    @property
    def step_seconds(self) -> float | None:
        """The median: the first steps compile and warm up."""
        seconds = self.values.get("seconds", ())
        return median(seconds) if seconds else None

    @property
    def peak_memory(self) -> float | None:
        memory = self.values.get("memory", ())
        return max(memory) if memory else None


def curves_of(steps: Sequence[Step], recipe: Recipe) -> Curves:
    """The training steps of a log; a line that only validates has no reward of training."""
    reward = recipe.metrics["reward"]
    trained = [step for step in steps if any(name in step.metrics for name in reward)]
    values = {}
    for name, spellings in recipe.metrics.items():
        spelling = next((item for item in spellings if any(item in step.metrics for step in trained)), None)
        values[name] = tuple(step.metrics[spelling] for step in trained if spelling in step.metrics) if spelling else ()
    return Curves(tuple(step.number for step in trained), values)


def judge(curves: Curves, recipe: Recipe) -> list[Verdict]:
    return [_all_steps(curves, recipe), *_numbers(curves), _learned(curves, recipe)]


def _all_steps(curves: Curves, recipe: Recipe) -> Verdict:
    missing = sorted(set(range(1, recipe.steps + 1)) - set(curves.steps))
    if missing:
        which = ", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else "")
        done = len(set(curves.steps))
        return Verdict("steps", False, f"{done} of {recipe.steps} steps were logged; missing: {which}")
    return Verdict("steps", True, f"all {recipe.steps} steps were done")


def _numbers(curves: Curves) -> Iterator[Verdict]:
    """A run without a gradient ends as well as any other, and has trained nothing."""
    for name in ("loss", "gradient", "divergence"):
        values = curves.values[name]
        strange = [value for value in values if not math.isfinite(value)]
        if not values:
            yield Verdict(name, False, f"no {name} was logged")
        elif strange:
            yield Verdict(name, False, f"the {name} is {strange[0]} in {len(strange)} of {len(values)} steps")
        elif not any(values):
            yield Verdict(name, False, f"the {name} is zero in every step: nothing was trained")
        else:
            yield Verdict(name, True, f"the {name} is finite, between {min(values):.3g} and {max(values):.3g}")


def _learned(curves: Curves, recipe: Recipe) -> Verdict:
    rewards = curves.values["reward"]
    if len(rewards) < 2 * recipe.window or not all(map(math.isfinite, rewards)):
        return Verdict("reward", False, f"{len(rewards)} rewards were logged, too few or not finite")
    first, last = fmean(rewards[: recipe.window]), fmean(rewards[-recipe.window :])
    rise = last - first
    told = f"the reward went from {first:.3f} to {last:.3f}"
    if rise < recipe.reward_margin:
        return Verdict("reward", False, f"{told}; a run that learns gains at least {recipe.reward_margin}")
    return Verdict("reward", True, told)
