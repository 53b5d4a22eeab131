"""Turns the plan of an image into the parts of an installation, which run the same commands on a host."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from envbuilder.files import digest_of
from envbuilder.plan import Plan, SourceArchive
from envbuilder.plan.plan import SOURCE_STEPS, SOURCES, TOOLS
from envbuilder.render import commands_of, render_activation

_INSTALL_TOOLS = f"python3 -m pip install --quiet --no-deps --require-hashes --requirement {TOOLS}"


@dataclass(frozen=True)
class Part:
    """Commands that run again as a whole after an interruption. `clears` are folders that this may leave behind."""

    title: str
    commands: str
    inputs: tuple[str, ...] = ()
    clears: tuple[str, ...] = ()

    def key(self, before: str) -> str:
        """Return the digest of this part and all parts before it, so that a change in one changes all later keys."""
        return digest_of("\0".join((before, self.title, self.commands, *self.inputs)).encode())


def parts_of(plan: Plan, sources: Mapping[str, SourceArchive], home: Path) -> list[Part]:
    """Return the parts of a plan. The folder is an input, because a virtual environment contains its own path."""
    digests = {path: digest_of(text.encode()) for path, text in plan.files.items()}
    digests |= {f"{SOURCES}/{item.archive.name}": item.sha256 for item in sources.values()}
    make_venv = f'"$ENVBUILDER_PYTHON" -m venv --clear venv && {_INSTALL_TOOLS}'
    parts = [Part("virtual environment", make_venv, (plan.python, str(home), digests.get(TOOLS, "")))]
    for stage in plan.stages:
        for layer in stage.layers:
            if layer.only_in_images:
                continue
            read = tuple(digests[path] for path in layer.reads)
            clears = [f"src/{step.values['component']}" for step in layer.steps if step.kind in SOURCE_STEPS]
            clears += [f"wheels/{stage.name}"] if stage.makes_wheels else []
            parts.append(Part(layer.title, commands_of(layer), read, tuple(clears)))
    return parts


def activation(plan: Plan, home: Path) -> str:
    """Return the text of `activate`, the file to be sourced."""
    return f"ENVBUILDER_PREFIX={shlex.quote(str(home))}\n{render_activation(plan)}"
