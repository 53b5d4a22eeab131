"""The docker engine: builds through its command line, because only that speaks BuildKit; the SDK for the rest."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

from envbuilder.errors import EnvbuilderError, NetworkError

_VERTEX = re.compile(r"^#(\d+) (.*)$")
_STEP = re.compile(r"^\[(\S+) +(\d+)/\d+\] ")
_DONE = re.compile(r"^DONE ([0-9.]+)s$")
_TAIL = 30


class Image(NamedTuple):
    id: str
    size: int


@dataclass
class StepResult:
    """One instruction of the final stage, as it ran."""

    number: int
    seconds: float = 0.0
    cached: bool = False
    failed: bool = False
    output: list[str] = field(default_factory=list)


class Engine:
    """A connection to the engine that DOCKER_HOST, or the default socket, names."""

    def __init__(self) -> None:
        import docker

        try:
            self._client: Any = docker.from_env(timeout=120)
            self._client.ping()
        except docker.errors.DockerException as error:
            raise EnvbuilderError(
                "no docker engine answers", hint="start one, or set DOCKER_HOST; tools/engine.sh starts a private one"
            ) from error

    def image(self, name: str) -> Image | None:
        import docker

        try:
            found = self._client.images.get(name)
        except docker.errors.ImageNotFound:
            return None
        return Image(found.id, found.attrs["Size"])

    def pull(self, name: str) -> bool:
        """Whether the image could be had from its registry."""
        import docker
        import requests

        try:
            self._client.images.pull(name)
        except (docker.errors.APIError, requests.RequestException):
            return False
        return True

    def import_archive(self, archive: IO[bytes], name: str) -> None:
        repository, _, tag = name.rpartition(":")
        self._client.api.import_image_from_data(archive, repository=repository, tag=tag, changes=['CMD ["/bin/bash"]'])

    def free_bytes(self) -> int | None:
        """Free space at the engine's root, where that is a folder of this machine."""
        root = Path(self._client.info().get("DockerRootDir", ""))
        try:
            status = os.statvfs(root)
        except OSError:
            return None
        return status.f_bavail * status.f_frsize

    def build(
        self,
        context: Path,
        *,
        tag: str,
        secrets: Mapping[str, Path],
        arguments: Mapping[str, str],
        no_cache: bool,
        log: Path,
        on_step: Callable[[StepResult, bool], None],
    ) -> list[StepResult]:
        """Builds the Dockerfile of a context. `on_step` is told when a step starts (False) and when it ends (True)."""
        command = ["docker", "build", "--progress", "plain", "--tag", tag]
        command += [part for name, path in secrets.items() for part in ("--secret", f"id={name},src={path}")]
        command += [part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")]
        command += ["--no-cache"] if no_cache else []
        environment = {**os.environ, "DOCKER_BUILDKIT": "1"}
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w", encoding="utf-8") as written:
            process = subprocess.Popen(  # noqa: S603
                [*command, str(context)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
            )
            assert process.stdout is not None  # noqa: S101
            try:
                steps, rest = _follow(_logged(process.stdout, written), on_step)
            except BaseException:
                process.terminate()
                process.wait()
                raise
            if process.wait() != 0:
                raise BuildError(steps, rest, log)
        return steps


class BuildError(EnvbuilderError):
    """A build that failed: in which step, with which last words, and the whole log."""

    def __init__(self, steps: list[StepResult], rest: list[str], log: Path) -> None:
        self.step = next((step for step in steps if step.failed), None)
        self.lines = (self.step.output if self.step else rest)[-_TAIL:]
        self.log = log
        super().__init__("the build failed", hint=_hint("\n".join(self.lines)))


# what a failing step says, and what it usually means
_KNOWN = {
    r"certificate verify failed|SSL certificate problem|CERTIFICATE_VERIFY|UnknownIssuer": (
        "the network has its own certificates: give them with --ca-bundle"
    ),
    r"No space left on device": "the disk of the engine is full: docker system prune, or move its root",
    r"[Hh]ash mismatch|do not match the hashes|hashes? .* not match": (
        "a file on the index is not the one that was locked: it was changed on the way, or the mirror is stale"
    ),
    r"exec format error": "the base image is for another architecture: choose --arch, or set up emulation",
    r"Killed|out of memory|signal 9": "out of memory while compiling: try --jobs 1",
    r"407 Proxy Authentication": "the proxy wants credentials: give them in --proxy",
    r"[Nn]ame resolution|Could not resolve host|dns error|Connection refused|Network is unreachable|not known": (
        "the build cannot reach the network: check --proxy, --pip-index and the network settings of this host"
    ),
}


def _hint(text: str) -> str | None:
    return next((hint for pattern, hint in _KNOWN.items() if re.search(pattern, text)), None)


def _logged(lines: IO[str], written: IO[str]) -> Iterator[str]:
    for line in lines:
        written.write(line)
        yield line.rstrip("\n")


def _follow(lines: Iterator[str], on_step: Callable[[StepResult, bool], None]) -> tuple[list[StepResult], list[str]]:
    """Reads BuildKit's plain progress: which step of the final stage is running, and how each ended."""
    steps: dict[str, StepResult] = {}
    started: dict[str, float] = {}
    rest: list[str] = []
    for line in lines:
        match = _VERTEX.match(line)
        if match is None:
            rest.append(line)
            continue
        vertex, text = match.groups()
        named = _STEP.match(text)
        if named and named[1] == "environment" and vertex not in steps:
            steps[vertex] = StepResult(int(named[2]))
            started[vertex] = time.monotonic()
            on_step(steps[vertex], False)
        elif vertex in steps:
            _advance(steps[vertex], text, started[vertex], on_step)
        else:
            rest.append(text)
    return sorted(steps.values(), key=lambda step: step.number), rest


def _advance(step: StepResult, text: str, started: float, on_step: Callable[[StepResult, bool], None]) -> None:
    done = _DONE.match(text)
    if text == "CACHED" or done or text.startswith("ERROR"):
        step.cached = text == "CACHED"
        step.failed = text.startswith("ERROR")
        step.seconds = 0.0 if step.cached else time.monotonic() - started
        on_step(step, True)
    else:
        step.output.append(re.sub(r"^[0-9.]+ ", "", text))


def unreachable(name: str) -> NetworkError:
    return NetworkError(
        f"the base image {name} is not here and its registry cannot be reached",
        hint="give --base-image an image that is here, or load it from an archive",
    )
