"""Accounts for every file of an image: which part of the build it comes from, and that it is as it came from there."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from typing import Any, NamedTuple, TypeAlias

from envbuilder.docker.base_layers import base_layers, chain, lowest_layers
from envbuilder.docker.engine import Docker, ImageConfiguration, UnsavableError
from envbuilder.docker.which import program
from envbuilder.environment import Environment
from envbuilder.language import english
from envbuilder.plan.plan import HOME
from envbuilder.process import start
from envbuilder.validate.expected import Expected
from envbuilder.validate.follow import follow
from envbuilder.validate.report import Account
from envbuilder.validate.target import InContainer, slowness_of

_LIMIT = 15 * 60
# variables of an image that decide which code runs
_DECIDING = ("BASH_ENV", "ENV", "LD_", "PATH", "PROMPT_COMMAND", "PYTHON")


class Accounted(NamedTuple):
    """The account of an image and what was found beside it, or else the reason why there is none."""

    account: Account | None
    found: Mapping[str, Any]
    problem: str | None = None
    # why the engine cannot show the files of the base image
    unreadable: str | None = None


Accountant: TypeAlias = Callable[[Expected, Path], Accounted]


@dataclass(frozen=True)
class ImageAccountant:
    """Takes the account of an image of the engine."""

    docker: Docker
    image: str
    environment: Environment

    def __call__(self, wanted: Expected, log: Path) -> Accounted:
        described = self.docker.configuration(self.image)
        base, platform = base_layers(described, HOME), self.docker.platform(self.environment.coordinates.arch)
        if not base:
            problem = english("its history does not say where the layers of its base image end")
            return Accounted(None, {}, problem)
        with ExitStack() as stack:
            try:
                lowest = stack.enter_context(lowest_layers(self.docker, self.image, len(base)))
            except UnsavableError as error:
                return Accounted(None, {}, unreadable=str(error))
            container = stack.enter_context(self.docker.beside(self.image, lowest, platform))
            reader = _Reader(container, slowness_of(self.environment))
            ended = follow(reader, "account.py", _job(wanted), {}, _LIMIT, log)
        verdict = ended.verdict(english("account"))
        if not verdict.passed:
            return Accounted(None, {}, verdict.message)
        found = json.loads(next(line for line in ended.text.splitlines() if line.startswith('{"files"')))
        return Accounted(_account(found, base, described), found)


class _Reader(InContainer):
    """A container of the base image. Its Python starts alone: without a shell, variables, or installed packages."""

    def start(self, command: Sequence[str], variables: Mapping[str, str], job: str) -> Popen[str]:
        self.write(job)
        interpreter, *arguments = command
        return start([program(), "exec", self.id, interpreter, "-I", "-S", *arguments])


def _job(wanted: Expected) -> dict[str, Any]:
    return {
        "home": HOME,
        "sources": wanted.sources,
        "kept": [*wanted.trees, *wanted.unknown_trees],
        "trees": list(wanted.trees),
        "hashes": wanted.trees,
        "unknown": list(wanted.unknown_trees),
        "products": [str(item["file"]) for item in wanted.products if str(item["file"]).startswith("/")],
        "packages": sorted(wanted.ours),
        "tools": list(wanted.tools),
        "system_packages": list(wanted.system_packages),
        "texts": wanted.texts,
        "own": [item._asdict() for item in wanted.own_files],
    }


def _account(found: Mapping[str, Any], base: Sequence[str], described: ImageConfiguration) -> Account:
    return Account(
        files=found["files"],
        kinds=found["kinds"],
        lost=found["lost"],
        unaccounted=found["unaccounted"],
        base={"layers": len(base), "digest": chain(base)},
        runs={**found["runs"], "start": dict.fromkeys(_starts(described), "settings of the image")},
    )


def _starts(described: ImageConfiguration) -> list[str]:
    """Return what a container of the image runs, and the variables that decide what else runs."""
    settings = described.settings
    named = {name: settings.get(name) for name in ("Entrypoint", "Cmd", "Healthcheck", "OnBuild")}
    found = [f"{name.upper()} {json.dumps(value)}" for name, value in named.items() if value]
    return found + [item for item in settings.get("Env") or () if item.startswith(_DECIDING)]
