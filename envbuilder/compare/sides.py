"""The two sides of a comparison: one or more runs each, of the first and of the second device."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

from envbuilder.compare.runs import LoggedRun, mean_of, open_run
from envbuilder.errors import UsageError
from envbuilder.language import and_more, tr
from envbuilder.matrix.model import LogSpec
from envbuilder.trainlog import Log


@dataclass(frozen=True)
class Side:
    """The runs of one side."""

    runs: tuple[LoggedRun, ...]

    @property
    def mean(self) -> LoggedRun:
        """The run itself, or the mean of each metric over all runs in the steps that all have."""
        if len(self.runs) == 1:
            return self.runs[0]
        return LoggedRun(self.name, Log(self.runs[0].log.steps), self._means)

    @property
    def name(self) -> str:
        return and_more([self.runs[0].name], len(self.runs) - 1)

    def device(self, spec: LogSpec) -> str | None:
        """Return the kind of device of all runs, or None if it is not known of some."""
        found = {run.device(spec) for run in self.runs}
        return found.pop() if len(found) == 1 else None

    @cached_property
    def _means(self) -> dict[str, dict[int, float]]:
        found = {}
        for name in self.runs[0].values:
            series = [run.values.get(name, {}) for run in self.runs]
            steps = set.intersection(*(set(item) for item in series))
            if steps:
                found[name] = {step: mean_of([item[step] for item in series]) for step in sorted(steps)}
        return found


def open_sides(first: Sequence[str], second: Sequence[str]) -> tuple[Side, Side]:
    """Return both sides of logs, which are named by paths or by patterns with * and ?."""
    files = [[*chain.from_iterable(map(_matching, texts))] for texts in (first, second)]
    names = iter(_short([*chain.from_iterable(files)]))
    ours, theirs = (Side(tuple(open_run(path, next(names)) for path in paths)) for paths in files)
    return ours, theirs


def _matching(text: str) -> list[Path]:
    """Return the file of a path, or the files that match a pattern, which a shell may have left as it is."""
    found = [Path(text)] if Path(text).exists() else [Path(name) for name in sorted(glob.glob(text))]  # noqa: PTH207  absolute too
    if not found:
        raise UsageError(
            tr("{file} does not exist", file=text), hint=tr("name a log, a folder of event files, or a pattern with *")
        )
    return found


def _short(paths: Sequence[Path]) -> list[str]:
    """Return names of the files without their folders, or with as many as make them differ."""
    longest = max(len(path.parts) for path in paths)
    for length in range(1, longest + 1):
        names = ["/".join(path.parts[-length:]) for path in paths]
        if len({*names}) == len({*paths}):
            break
    return names
