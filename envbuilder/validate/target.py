"""The targets of a validation: a container of an image, or this host."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Protocol

from envbuilder.docker.container import Container
from envbuilder.docker.emulation import emulator
from envbuilder.docker.engine import Docker
from envbuilder.docker.which import program
from envbuilder.environment import Environment
from envbuilder.errors import ValidationError
from envbuilder.files import workspace
from envbuilder.language import tr
from envbuilder.matrix.model import GPU, NPU, STAND_IN, Device
from envbuilder.process import run, start
from envbuilder.stand_in import HOOK, INSIDE, Spec, lay_out, spec_of
from envbuilder.validate.smoke.job import Place

_CODE = Path(__file__).parent / "smoke" / "inside"
_STAND_IN = "/opt/stand-in"
_TORCH_NPU = """$(python3 -c 'import sysconfig; print(sysconfig.get_path("platlib"))')/torch_npu"""
# with qemu, importing torch takes twenty times as long
_EMULATED = 30
_INSIDE = Place(code="/tmp/smoke/inside", folder="/tmp/smoke/run")  # noqa: S108  in a container that is removed afterwards


class Target(Protocol):
    @property
    def place(self) -> Place: ...

    # how many times slower it may be than this machine's own processor
    @property
    def slowness(self) -> int: ...

    def start(self, command: Sequence[str], variables: Mapping[str, str], job: str) -> Popen[str]:
        """Put a job next to the code of the smoke run on the target, and start a command there."""

    def variables(self) -> dict[str, str]:
        """Return the variables that a process has which no shell has started."""

    def ask(self, command: Sequence[str]) -> bool:
        """Return whether a short command succeeds."""

    def stop(self, process: Popen[str]) -> None:
        """End a process and everything that it has started."""


class InContainer:
    def __init__(self, container: Container, slowness: int = 1) -> None:
        self._container, self.slowness = container, slowness
        self.id = container.id
        self.place = _INSIDE
        with workspace() as folder:
            shutil.copytree(_CODE, folder / "smoke" / "inside")
            container.put(folder / "smoke", "/tmp")  # noqa: S108

    def start(self, command: Sequence[str], variables: Mapping[str, str], job: str) -> Popen[str]:
        self.write(job)
        settings = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
        # started by bash, which sets up the vendor's paths
        words = [program(), "exec", *settings, "--workdir", "/tmp", self.id]  # noqa: S108
        return start([*words, "bash", "-c", 'exec "$@"', "bash", *command])

    def write(self, job: str) -> None:
        with workspace() as folder:
            (folder / "job.json").write_text(job, encoding="utf-8")
            self._container.put(folder / "job.json", "/tmp/smoke")  # noqa: S108

    def variables(self) -> dict[str, str]:
        lines = run([program(), "exec", self.id, "env", "-0"]).text.rstrip("\0").split("\0")
        return {name: value for name, _, value in (line.partition("=") for line in lines)}

    def ask(self, command: Sequence[str]) -> bool:
        return run([program(), "exec", self.id, *command]).ok

    def stop(self, process: Popen[str]) -> None:
        self._container.stop()
        process.wait()


class OnHost:
    slowness = 1

    def __init__(self, folder: Path) -> None:
        self.place = Place(code=str(folder / "inside"), folder=str(folder / "run"))
        self._folder = folder
        shutil.copytree(_CODE, self.place.code)

    def start(self, command: Sequence[str], variables: Mapping[str, str], job: str) -> Popen[str]:
        (self._folder / "job.json").write_text(job, encoding="utf-8")
        return start(command, variables={**os.environ, **variables}, cwd=self._folder)

    def variables(self) -> dict[str, str]:
        return dict(os.environ)

    def ask(self, command: Sequence[str]) -> bool:
        return run(command).ok

    def stop(self, process: Popen[str]) -> None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def container_of(
    docker: Docker, image: str, environment: Environment, device: Device, npus: int
) -> Iterator[InContainer]:
    """Start a container without a network, and remove it afterwards."""
    needs = environment.run
    nodes: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    if device == NPU and needs is not None:
        nodes = (*(f"{needs.device}{number}" for number in range(npus)), *needs.device_nodes)
        mounts = tuple(path for path in needs.mounts if Path(path).exists())
    gpus = npus if device == GPU else 0
    stand_in = (
        spec_of(environment, devices=npus, hook=f"{_STAND_IN}/{INSIDE.name}/{HOOK}") if device == STAND_IN else None
    )
    platform = docker.platform(environment.coordinates.arch)
    with docker.container(image, platform, nodes, mounts, (stand_in.root,) if stand_in else (), gpus) as container:
        if stand_in is not None:
            _set_up(stand_in, container)
        yield InContainer(container, slowness_of(environment))


def slowness_of(environment: Environment) -> int:
    """Return how many times slower a container of an environment is than this machine's own processor."""
    return _EMULATED if emulator(environment.coordinates.arch) else 1


def _set_up(spec: Spec, container: Container) -> None:
    """Make a stand-in of the vendor's toolkit in a container, in place of the toolkit of the image."""
    with workspace() as folder:
        place = folder / Path(_STAND_IN).name
        lay_out(spec, place)
        container.put(place, str(Path(_STAND_IN).parent))
    code = f"python3 {_STAND_IN}/{INSIDE.name}/make_cann.py {_STAND_IN}/spec.json {_TORCH_NPU}"
    made = run([program(), "exec", container.id, "bash", "-c", code])
    if not made.ok:
        raise ValidationError(tr("the stand-in of CANN cannot be made: {reason}", reason=made.last_words))
