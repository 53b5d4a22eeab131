"""Judges from the log of the framework whether a run has trained."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from envbuilder.language import english
from envbuilder.matrix.model import SmokeRun
from envbuilder.trainlog import LoggedStep
from envbuilder.validate.report import Status

# metrics that training changes; a framework may not log all of them
_MOVING = ("loss", "gradient", "divergence")


@dataclass(frozen=True)
class Verdict:
    """The outcome of one check of a run."""

    name: str
    passed: bool
    message: str

    @property
    def status(self) -> Status:
        return "passed" if self.passed else "failed"


@dataclass(frozen=True)
class Curves:
    """The metrics of a run by the names of the recipe, one value for each step that logged it."""

    steps: tuple[int, ...]
    values: Mapping[str, tuple[float, ...]]

    @property
    def step_seconds(self) -> float | None:
        """Return the median, because the first steps compile and warm up."""
        seconds = self.values.get("seconds", ())
        return median(seconds) if seconds else None

    @property
    def peak_memory(self) -> float | None:
        memory = self.values.get("memory", ())
        return max(memory) if memory else None

    def ends(self, window: int) -> tuple[float, float] | None:
        """Return the mean reward of the first and of the last steps, or None if they are too few or not finite."""
        rewards = self.values.get("reward", ())
        if len(rewards) < 2 * window or not all(map(math.isfinite, rewards)):
            return None
        return fmean(rewards[:window]), fmean(rewards[-window:])


def curves_of(steps: Sequence[LoggedStep], recipe: SmokeRun) -> Curves:
    """Return the metrics of the training steps; a logged step without a training reward only validates."""
    reward = recipe.metrics["reward"]
    trained = [step for step in steps if any(name in step.metrics for name in reward)]
    values = {}
    for name, spellings in recipe.metrics.items():
        spelling = next((item for item in spellings if any(item in step.metrics for step in trained)), None)
        values[name] = tuple(step.metrics[spelling] for step in trained if spelling in step.metrics) if spelling else ()
    return Curves(tuple(step.number for step in trained), values)


def judge(curves: Curves, recipe: SmokeRun) -> list[Verdict]:
    return [_all_steps(curves, recipe), *_numbers(curves, recipe), _learned(curves, recipe)]


def judge_device(curves: Curves, recipe: SmokeRun, log: str) -> Verdict:
    """Judge whether a run used the NPU: one that fell back to the CPU learns just as well."""
    fallen = _line_with(recipe.fallbacks, log)
    if fallen is not None:
        return Verdict("device", False, english("not everything ran on the device: {fallen}", fallen=fallen))
    if "device_memory" not in recipe.metrics:
        return Verdict("device", True, english("nothing fell back to the CPU"))
    memory = max(curves.values["device_memory"], default=0.0)
    if not memory > 0:
        return Verdict("device", False, english("no memory of the device was used: nothing ran on it"))
    message = english("nothing fell back to the CPU; {size} GB of device memory were used", size=f"{memory:.2f}")
    return Verdict("device", True, message)


def judge_engine(words: Sequence[str], log: str) -> Verdict:
    """Judge whether the engine generated with its own model: with that of transformers a run learns just as well."""
    fallen = _line_with(words, log)
    if fallen is not None:
        message = english("the engine did not generate with its own model: {fallen}", fallen=fallen)
        return Verdict("engine", False, message)
    return Verdict("engine", True, english("the engine generated with its own model"))


def _line_with(words: Sequence[str], log: str) -> str | None:
    return next((line.strip()[:200] for line in log.splitlines() if any(word in line for word in words)), None)


def judge_probabilities(curves: Curves, limit: float) -> Verdict:
    """Judge whether the engine has the weights of the trainer: with older ones its samples are of another model."""
    found = curves.values.get("probabilities", ())
    if not found or not all(map(math.isfinite, found)):
        return Verdict("weights", False, english("the probabilities of the engine and the trainer were not compared"))
    most = english(
        "the probabilities of the engine and the trainer differ by at most {value}", value=f"{max(found):.2g}"
    )
    if max(found) > limit:
        message = english("{most}, which is above {limit}: the engine has other weights", most=most, limit=limit)
        return Verdict("weights", False, message)
    return Verdict("weights", True, most)


def judge_tokens(wanted: Sequence[Sequence[int]], found: Sequence[Sequence[int]]) -> Verdict:
    """Judge whether an engine generates what transformers does: one that ignores earlier tokens learns as well."""
    equal = sum(list(one) == list(other) for one, other in zip(wanted, found, strict=True))
    if equal < len(wanted):
        message = english(
            "{number} of {total} greedy answers of the engine differ from those of transformers",
            number=len(wanted) - equal,
            total=len(wanted),
        )
        return Verdict("tokens", False, message)
    message = english("all {equal} greedy answers of the engine equal those of transformers", equal=equal)
    return Verdict("tokens", True, message)


def _all_steps(curves: Curves, recipe: SmokeRun) -> Verdict:
    missing = sorted(set(range(1, recipe.steps + 1)) - set(curves.steps))
    if missing:
        message = english(
            "{done} of {steps} steps were logged; missing: {which}",
            done=len(set(curves.steps)),
            steps=recipe.steps,
            which=", ".join(map(str, missing[:5])) + (", ..." if len(missing) > 5 else ""),
        )
        return Verdict("steps", False, message)
    return Verdict("steps", True, english("all {steps} steps were done", steps=recipe.steps))


def _numbers(curves: Curves, recipe: SmokeRun) -> Iterator[Verdict]:
    """Judge the metrics that training changes: a run without a gradient ends without an error and trains nothing."""
    for name in (name for name in _MOVING if name in recipe.metrics):
        values = curves.values.get(name, ())
        strange = [value for value in values if not math.isfinite(value)]
        if not values:
            message = english("no {name} was logged", name=name)
        elif strange:
            message = english(
                "the {name} is {value} in {number} of {total} steps",
                name=name,
                value=strange[0],
                number=len(strange),
                total=len(values),
            )
        elif not any(values):
            message = english("the {name} is zero in every step: nothing was trained", name=name)
        else:
            low, high = f"{min(values):.3g}", f"{max(values):.3g}"
            message = english("the {name} is finite, between {low} and {high}", name=name, low=low, high=high)
        yield Verdict(name, any(values) and not strange, message)


def _learned(curves: Curves, recipe: SmokeRun) -> Verdict:
    ends = curves.ends(recipe.window)
    if ends is None:
        count = len(curves.values.get("reward", ()))
        return Verdict("reward", False, english("{count} rewards were logged, too few or not finite", count=count))
    first, last = ends
    change = english("the reward went from {first} to {last}", first=f"{first:.3f}", last=f"{last:.3f}")
    if last - first < float(recipe.reward_margin):
        message = english(
            "{change}; a run that learns gains at least {least}", change=change, least=recipe.reward_margin
        )
        return Verdict("reward", False, message)
    return Verdict("reward", True, change)
