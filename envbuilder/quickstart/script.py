"""Writes the steps of a training as text for a shell."""

from __future__ import annotations

from collections.abc import Sequence

from envbuilder.quickstart.choose import Training
from envbuilder.quickstart.shell import quoted
from envbuilder.quickstart.steps import NodeStep

# the folder of a container for all files that have to stay, and its home folder, for the caches of models
WORK = "/work"
# the folder of the host that is mounted there
DEFAULT_WORK = "quickstart"
# ends the commands for the container
_INSIDE = "IN_THE_CONTAINER"
_WHERE = {"head": "on the head", "worker": "on every other node", "all": "on every node"}


def script(training: Training, steps: Sequence[NodeStep], kept: str) -> str:
    """Return one script for the host, which runs all other steps in the container."""
    container, *others = steps
    lines = ["#!/usr/bin/env bash", *_sources(training), "set -euo pipefail", "", *_kept(training)]
    lines += [f"mkdir -p {quoted(kept)}"]
    lines += ["", f"# {container.title}", f"{container.text} \\\n  -- bash -euo pipefail <<'{_INSIDE}'", "cd"]
    for step in others:
        lines += ["", f"# {step.title}", step.text]
    return "\n".join([*lines, _INSIDE])


def lines_of_nodes(training: Training, steps: Sequence[NodeStep]) -> str:
    """Return the steps of several nodes, each with its place."""
    lines = _sources(training)
    for step in steps:
        lines += ["", f"# {_WHERE[step.where]}: {step.title}", step.text]
    return "\n".join(lines)


def _sources(training: Training) -> list[str]:
    return ["# the documents and sources of these commands:", *(f"#   {source}" for source in training.sources)]


def _kept(training: Training) -> list[str]:
    if training.unsaved is None:
        return ["# data, models, caches and checkpoints stay in this folder"]
    setting = training.unsaved
    none = f"# no checkpoints are saved, as {setting} is -1; --set {setting}=20 saves one after every 20 steps"
    return ["# data, models and caches stay in this folder", none]
