"""Trainings of tests, and the words of their commands as programs get them from a shell."""

from __future__ import annotations

import shlex
from typing import Any

from envbuilder.matrix import Matrix
from envbuilder.quickstart.choose import Training, TrainingOptions, training_of
from envbuilder.quickstart.steps import ClusterNetwork, NodeStep, inside
from tests.conftest import environment

V041 = "verl-v0.4.1-vllm-a2-aarch64"
V040 = "verl-v0.4.0-vllm-a2-aarch64"


def made(matrix: Matrix, identifier: str, recipe: str | None, **options: Any) -> Training:
    return training_of(environment(matrix, identifier), recipe, TrainingOptions(**options))


def last(training: Training) -> NodeStep:
    return inside(training, ClusterNetwork())[-1]


def split(text: str) -> list[str]:
    """Split a text into words as a shell does, which joins lines that end with a backslash."""
    return shlex.split(text.replace("\\\n", ""))


def words(training: Training) -> list[str]:
    return split(last(training).command)


def mapping(texts: list[str]) -> dict[str, str]:
    """Return options with their values; a switch has an empty value. Each option occurs once."""
    found: dict[str, str] = {}
    for position, text in enumerate(texts):
        key, equals, value = text.partition("=")
        if text.startswith("--"):
            after = texts[position + 1 : position + 2]
            key, equals, value = text, "=", after[0] if after and not after[0].startswith("--") else ""
        if equals:
            assert key not in found
            found[key] = value
    return found


def options(training: Training, program: str) -> dict[str, str]:
    """Return the options behind the module of the trainer."""
    command = words(training)
    return mapping(command[command.index(program) + 1 :])


def prepared(training: Training) -> list[str]:
    (step,) = [step for step in inside(training, ClusterNetwork()) if "data_preprocess" in step.command]
    return split(step.command)
