"""Runs builds through docker's command line, because its SDK does not support BuildKit."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envbuilder.docker.buildkit import Listener, StepResult, follow
from envbuilder.docker.client import build_command
from envbuilder.errors import EnvbuilderError
from envbuilder.process import start


@dataclass(frozen=True)
class Build:
    """A Dockerfile with its context, and the wanted result: a tagged image, or the files of one stage."""

    context: Path
    secrets: Mapping[str, str]
    arguments: Mapping[str, str]
    platform: str | None
    log: Path
    tag: str | None = None
    target: str | None = None
    output: Path | None = None
    no_cache: bool = False
    # whether its commands run without a network
    is_cut_off: bool = False

    def options(self) -> list[str]:
        words = ["--progress", "plain"]
        for name, value in self.arguments.items():
            words += ["--build-arg", f"{name}={value}"]
        settings = {
            "--tag": self.tag,
            "--target": self.target,
            "--platform": self.platform,
            "--output": f"type=local,dest={self.output}" if self.output else None,
            "--network": "none" if self.is_cut_off else None,
        }
        for option, setting in settings.items():
            words += [option, setting] if setting else []
        return [*words, *(["--no-cache"] if self.no_cache else []), str(self.context)]


def run(build: Build, listener: Listener) -> list[StepResult]:
    """Build, and report every step to the listener. Return the steps."""
    command = build_command()
    loading = ["--load"] if "buildx" in command and build.output is None else []
    secrets, variables = _secrets(build)
    command += [*loading, *secrets, *build.options()]
    build.log.parent.mkdir(parents=True, exist_ok=True)
    with build.log.open("a", encoding="utf-8") as log:
        # flushed, so that a full disk is an error before the engine begins
        print("$", shlex.join(command), file=log, flush=True)
        # in the session of envbuilder, so that Ctrl-C reaches it
        process = start(
            command,
            variables={**os.environ, "DOCKER_BUILDKIT": "1", **variables},
            own_session=False,
            dies_with_parent=True,
        )
        assert process.stdout is not None  # noqa: S101
        try:
            with process.stdout as lines:
                steps, rest = follow(lines, log, listener)
        except BaseException:
            # the engine stops a build whose client disconnects
            process.terminate()
            process.wait()
            raise
        if process.wait() != 0:
            raise BuildError(steps, rest)
    return steps


def _secrets(build: Build) -> tuple[list[str], dict[str, str]]:
    """Return the options and variables that pass the secrets of a build.

    Secrets are not written to disk, except for bundles of certificates, which do not fit in a variable (128 KiB).
    """
    options: list[str] = []
    variables: dict[str, str] = {}
    for number, (name, value) in enumerate(build.secrets.items()):
        if len(value) < 2**16:
            variables[f"ENVBUILDER_SECRET_{number}"] = value
            options += ["--secret", f"id={name},env=ENVBUILDER_SECRET_{number}"]
        else:
            path = build.context.with_name(f"secret-{name}")
            path.write_text(value, encoding="utf-8")
            options += ["--secret", f"id={name},src={path}"]
    return options, variables


class BuildError(EnvbuilderError):
    """A build that failed, with the step and its last output."""

    def __init__(self, steps: Sequence[StepResult], rest: Sequence[str]) -> None:
        super().__init__("the build failed")
        self.step = next((step for step in steps if step.failed), None)
        self.lines = list(self.step.output if self.step else rest)
