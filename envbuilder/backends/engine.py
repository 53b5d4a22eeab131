"""The docker engine: builds through its command line, because only that speaks BuildKit; the SDK for the rest."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple

from envbuilder import host
from envbuilder.backends.buildkit import Listener, StepResult, follow
from envbuilder.backends.container import Container, started
from envbuilder.errors import EnvbuilderError, NetworkError
from envbuilder.watching import Progress


class Image(NamedTuple):
    id: str
    size: int
    arch: str
    labels: Mapping[str, str]


class Kept(NamedTuple):
    """An image of the engine's store under one of its names, or under none."""

    id: str
    name: str | None
    size: int
    arch: str
    labels: Mapping[str, str]
    created: str


@dataclass(frozen=True)
class Build:
    """A Dockerfile with its context, and what to make of it: a tagged image, or the files of one stage."""

    context: Path
    secrets: Mapping[str, str]
    arguments: Mapping[str, str]
    platform: str | None
    log: Path
    tag: str | None = None
    target: str | None = None
    output: Path | None = None
    no_cache: bool = False

    def options(self) -> list[str]:
        found = ["--progress", "plain"]
        for name, value in self.arguments.items():
            found += ["--build-arg", f"{name}={value}"]
        for option, given in (("--tag", self.tag), ("--target", self.target), ("--platform", self.platform)):
            found += [option, given] if given else []
        found += ["--output", f"type=local,dest={self.output}"] if self.output else []
        return [*found, *(["--no-cache"] if self.no_cache else []), str(self.context)]


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

    @property
    def address(self) -> str:
        return str(self._client.api.base_url) + os.environ.get("DOCKER_HOST", "")

    @cached_property
    def _info(self) -> dict[str, Any]:
        return dict(self._client.info())

    @property
    def arch(self) -> str:
        return host.arch(str(self._info.get("Architecture", "")))

    def require_buildkit(self) -> None:
        """Another engine may answer like docker's and still not build like it."""
        parts = [str(part.get("Name", "")) for part in self._client.version().get("Components", [])]
        other = [name for name in parts if name.startswith("Podman")]
        if other:
            raise EnvbuilderError(
                f"builds need BuildKit, which {other[0]} does not have",
                hint="set DOCKER_HOST to the socket of a docker engine",
            )

    @cached_property
    def _command(self) -> list[str]:
        """buildx where it is present; a plain build speaks BuildKit as well."""
        try:
            found = subprocess.run(["docker", "buildx", "version"], capture_output=True, check=False)  # noqa: S607
        except FileNotFoundError as error:
            raise EnvbuilderError(
                "the docker command, which builds, is not installed", hint="install docker-cli or docker.io"
            ) from error
        return ["docker", "buildx", "build"] if found.returncode == 0 else ["docker", "build"]

    def image(self, name: str) -> Image | None:
        import docker

        try:
            found = self._client.images.get(name)
        except docker.errors.ImageNotFound:
            return None
        arch = host.arch(str(found.attrs.get("Architecture", "")))
        return Image(found.id, found.attrs["Size"], arch, found.labels)

    def images(self, label: str) -> list[Kept]:
        """Those that have a label, once for every name."""
        found = []
        for item in self._client.images.list(filters={"label": label}):
            arch = host.arch(str(item.attrs.get("Architecture") or "unknown"))
            for name in item.tags or [None]:
                found.append(Kept(item.id, name, item.attrs["Size"], arch, item.labels, item.attrs.get("Created", "")))
        return found

    def container(
        self, name: str, devices: Sequence[str] = (), mounts: Sequence[str] = ()
    ) -> AbstractContextManager[Container]:
        return started(self._client, name, devices, mounts)

    def tag(self, name: str, as_: str) -> None:
        repository, _, tag = as_.rpartition(":")
        self._client.images.get(name).tag(repository, tag=tag)

    def untag(self, name: str) -> None:
        """Takes a name away; what it named stays where another names it."""
        import docker

        try:
            self._client.images.remove(name, noprune=True)
        except docker.errors.ImageNotFound:
            return

    def remove(self, name: str) -> None:
        """With what only it uses."""
        import docker

        try:
            self._client.images.remove(name)
        except docker.errors.APIError as error:
            raise EnvbuilderError(f"{name} cannot be removed: {error.explanation or error}") from error

    def pull(self, name: str, platform: str | None) -> str | None:
        """Why the image cannot be had from its registry; None where it could."""
        import docker
        import requests

        try:
            self._client.images.pull(name, platform=platform)
        except docker.errors.APIError as error:
            return str(error.explanation or error).strip().splitlines()[-1]
        except requests.RequestException as error:
            return str(error)
        return None

    def pull_layers(self, repository: str, digest: str, progress: Progress) -> None:
        """By digest, with a line for every layer that has to be moved."""
        import docker
        import requests

        moving: set[str] = set()
        try:
            for event in self._client.api.pull(repository, tag=digest, stream=True, decode=True):
                if "error" in event:
                    raise NetworkError(f"{repository}@{digest} cannot be pulled: {event['error']}")
                _tell_layer(event, moving, progress)
        except docker.errors.APIError as error:
            raise NetworkError(f"{repository}@{digest} cannot be pulled: {error.explanation or error}") from error
        except requests.RequestException as error:
            raise NetworkError(f"the engine does not answer: {error}") from error

    def push(self, name: str) -> str:
        """Pushes an image and gives its digest in the registry."""
        repository, _, tag = name.rpartition(":")
        digest = ""
        for event in self._client.api.push(repository, tag=tag, stream=True, decode=True):
            if "error" in event:
                raise NetworkError(
                    f"{name} cannot be pushed: {event['error']}", hint="docker login, or another --registry"
                )
            digest = event.get("aux", {}).get("Digest", digest)
        return digest

    def label(self, name: str, labels: Mapping[str, str], tag: str) -> None:
        """The same image with more labels, under another name. Labels are no layer."""
        lines = [f"FROM {name}", *(f"LABEL {key}={json.dumps(value)}" for key, value in labels.items())]
        variables = {**os.environ, "DOCKER_BUILDKIT": "1", "BUILDX_BUILDER": "default"}
        made = subprocess.run(  # noqa: S603
            ["docker", "build", "--quiet", "--tag", tag, "-"],  # noqa: S607
            input="\n".join(lines), capture_output=True, text=True, check=False, env=variables,
        )  # fmt: skip
        if made.returncode != 0:
            raise EnvbuilderError(f"{name} cannot be labelled: {made.stderr.strip()}")

    def read(self, name: str, path: str) -> bytes:
        """One file of an image."""
        container = self._client.containers.create(name)
        try:
            parts, _ = container.get_archive(path)
            with tarfile.open(fileobj=BytesIO(b"".join(parts))) as tar:
                file = tar.extractfile(Path(path).name)
                return file.read() if file else b""
        finally:
            container.remove()

    def load(self, archive: Path, name: str) -> None:
        import docker

        try:
            with archive.open("rb") as file:
                self._client.images.load(file)
        except docker.errors.APIError as error:
            raise EnvbuilderError(f"{archive} cannot be loaded: {error.explanation or error}") from error
        if self.image(name) is None:
            raise EnvbuilderError(f"{archive} was loaded, and {name} is not there")

    def import_archive(self, archive: IO[bytes], name: str) -> None:
        told = self._client.api.import_image_from_data(archive, changes=['CMD ["/bin/bash"]'])
        self.tag(json.loads(told.splitlines()[-1])["status"], name)

    def free_bytes(self) -> int | None:
        """Free space at the engine's root, where that is a folder of this machine."""
        try:
            status = os.statvfs(self._info.get("DockerRootDir", ""))
        except OSError:
            return None
        return status.f_bavail * status.f_frsize

    def build(self, build: Build, listener: Listener) -> list[StepResult]:
        """Builds, and tells the listener of every step. The secrets go through the memory of the command, not the disk,
        except for those that are too large for that: the parts of a bundle of certificates."""
        loading = ["--load"] if self._command[1] == "buildx" and build.output is None else []
        secrets, variables = _secrets(build)
        command = [*self._command, *loading, *secrets, *build.options()]
        build.log.parent.mkdir(parents=True, exist_ok=True)
        with build.log.open("a", encoding="utf-8") as log:
            process = subprocess.Popen(  # noqa: S603
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env={**os.environ, "DOCKER_BUILDKIT": "1", **variables},
                preexec_fn=_die_with_parent,
            )
            assert process.stdout is not None  # noqa: S101
            try:
                steps, rest = follow(process.stdout, log, listener)
            except BaseException:
                # the engine stops a build whose client goes away
                process.terminate()
                process.wait()
                raise
            if process.wait() != 0:
                raise BuildError(steps, rest)
        return steps


def _tell_layer(event: Mapping[str, Any], moving: set[str], progress: Progress) -> None:
    layer, status = str(event.get("id", "")), str(event.get("status", ""))
    detail = event.get("progressDetail") or {}
    if status == "Downloading" and "total" in detail:
        if layer not in moving:
            moving.add(layer)
            progress.expect([layer])
            progress.started(layer)
        done, total = detail["current"] / 10**6, detail["total"] / 10**6
        filled = round(20 * done / total) if total else 20
        progress.said(layer, f"{'█' * filled}{'░' * (20 - filled)} {done:.0f} of {total:.0f} MB")
    elif status == "Pull complete" and layer in moving:
        progress.ended(layer, "done")


def _secrets(build: Build) -> tuple[list[str], dict[str, str]]:
    """Options and variables. A variable may hold 128 KiB, so a bundle lies beside the context, which is private."""
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


def _die_with_parent() -> None:
    """A build must not go on when envbuilder is killed: nobody would know of it."""
    import ctypes
    import signal

    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


class BuildError(EnvbuilderError):
    """A build that failed: in which step, and with which last words."""

    def __init__(self, steps: Sequence[StepResult], rest: Sequence[str]) -> None:
        super().__init__("the build failed")
        self.step = next((step for step in steps if step.failed), None)
        self.lines = list(self.step.output if self.step else rest)


def unreachable(name: str, trouble: str) -> NetworkError:
    return NetworkError(
        f"the base image {name} is not here and cannot be pulled: {trouble}",
        hint="give --base-image an image that is here, or --registry-mirror a mirror of the registry",
    )
