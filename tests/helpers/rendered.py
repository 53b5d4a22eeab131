"""The plan and the Dockerfile of an environment, and how to find the parts of its text."""

from __future__ import annotations

from envbuilder.matrix import Matrix
from envbuilder.plan import Plan, make_plan
from envbuilder.render import render_dockerfile
from tests.conftest import environment


def plan(matrix: Matrix, identifier: str) -> Plan:
    return make_plan(environment(matrix, identifier))


def dockerfile(matrix: Matrix, identifier: str) -> str:
    return render_dockerfile(plan(matrix, identifier))


def instructions(text: str) -> list[str]:
    """Return the instructions of a Dockerfile, each on one line, without comments."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    return [line for line in lines.replace("\\\n", "").splitlines() if line]


def run_of(text: str, title: str) -> str:
    """Return the RUN instruction of a layer."""
    return text.split(f"\n# {title}\n", 1)[1].split("\n\n", 1)[0]


def in_order(text: str, *parts: str) -> None:
    at = -1
    for part in parts:
        found = text.find(part, at + 1)
        assert found > at, f"{part!r} is missing or comes too early"
        at = found
