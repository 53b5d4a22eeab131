"""A user without root pulls, proves and runs images with an own engine: rootless docker or podman."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from envbuilder.registry.client import Registry
from tests.conftest import Result, succeeded
from tests.helpers.waiting import wait_until
from tests.integration.conftest import Toy, run

pytestmark = pytest.mark.extended

USER = "envbuilder-test"
PYTHON = "/usr/bin/python3"
SETPRIV = "/usr/bin/setpriv"


@dataclass(frozen=True)
class Person:
    """A user of this machine with access to its own files only."""

    number: int
    home: Path

    @property
    def sockets(self) -> Path:
        return self.home / "run"

    def variables(self, **more: str) -> dict[str, str]:
        libraries = os.pathsep.join(
            (str(Path(__file__).parents[2]), *(path for path in sys.path if "site-packages" in path))
        )
        fixed = {"HOME": str(self.home), "XDG_RUNTIME_DIR": str(self.sockets), "PATH": os.defpath + ":/usr/sbin:/sbin"}
        return {**fixed, "PYTHONPATH": libraries, "PYTHONDONTWRITEBYTECODE": "1", "LANGUAGE": "en", **more}

    def words(self, command: Sequence[str]) -> list[str]:
        number = str(self.number)
        return [SETPRIV, "--reuid", number, "--regid", number, "--init-groups", *command]

    def run(self, *command: str, **variables: str) -> Result:
        return subprocess.run(
            self.words(command), capture_output=True, text=True, check=False, cwd=self.home,
            env=self.variables(**variables), timeout=600,
        )  # fmt: skip

    def envbuilder(self, *arguments: str, **variables: str) -> Result:
        return self.run(PYTHON, "-m", "envbuilder", *arguments, **variables)


@pytest.fixture(scope="module")
def person(toy: Toy) -> Iterator[Person]:
    missing = [
        name for name in ("podman", "catatonit", "rootlesskit", "newuidmap", "useradd") if shutil.which(name) is None
    ]
    if os.getuid() != 0 or missing:
        pytest.skip(f"needs root, to add a user, and {', '.join(missing) or 'no more'}")
    subprocess.run(["userdel", "--remove", "--force", USER], capture_output=True, check=False)
    subprocess.run(["useradd", "--create-home", USER], check=True)
    try:
        entry = pwd.getpwnam(USER)
        found = Person(entry.pw_uid, Path(entry.pw_dir))
        found.sockets.mkdir(mode=0o700)
        shutil.copytree(toy.matrices, found.home / "matrices")
        subprocess.run(["chown", "--recursive", f"{USER}:", found.home], check=True)
        shown = found.run(PYTHON, "-c", "import envbuilder.cli, docker")
        if shown.returncode != 0:
            pytest.skip(f"another user cannot read this checkout, or {PYTHON} is another Python: {shown.stderr[-200:]}")
        yield found
    finally:
        subprocess.run(["userdel", "--remove", "--force", USER], capture_output=True, check=False)


@contextmanager
def started(person: Person, command: Sequence[str], socket: Path) -> Iterator[None]:
    with (person.home / "log").open("wb") as log:
        process = subprocess.Popen(
            person.words(command),
            env=person.variables(),
            cwd=person.home,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
    try:
        wait_until(socket.is_socket, lambda: (person.home / "log").read_text()[-2000:], process=process)
        yield
    finally:
        process.terminate()
        process.wait(300)


@contextmanager
def docker_of(person: Person) -> Iterator[None]:
    """Start rootless docker with the network of the host: its own needs a device that some machines lack."""
    own = person.sockets
    places = (
        f"--host unix://{own}/docker.sock --data-root {person.home}/docker --exec-root {own}/exec --pidfile {own}/pid"
    )
    dockerd = f"exec dockerd --rootless {places} --bridge=none --iptables=false --ip6tables=false"
    inner = f"rm -f /run/docker /run/containerd /run/xtables.lock; {dockerd}"
    options = ("--net=host", "--copy-up=/etc", "--copy-up=/run", "--propagation=rslave")
    command = ["rootlesskit", *options, "bash", "-c", inner]
    with started(person, command, own / "docker.sock"):
        yield


@contextmanager
def podman_of(person: Person, published: str) -> Iterator[None]:
    """Start podman as a service; unlike docker it trusts a registry on this machine only by configuration."""
    settings, socket = person.home / ".config/containers", person.sockets / "podman/podman.sock"
    for folder in (settings, socket.parent):
        assert person.run("mkdir", "--parents", str(folder)).returncode == 0
    (settings / "registries.conf").write_text(f'[[registry]]\nlocation = "{published}"\ninsecure = true\n')
    # runc of docker supports every version of control groups; a network needs a device that some machines lack
    (settings / "containers.conf").write_text('[engine]\nruntime = "runc"\n[containers]\nnetns = "host"\n')
    command = ["podman", "system", "service", "--time=0", f"unix://{socket}"]
    try:
        with started(person, command, socket):
            yield
    finally:
        # ends the process that holds the namespaces of the user
        person.run("podman", "system", "migrate")


@pytest.fixture(scope="module", params=["docker", "podman"])
def own_engine(request: pytest.FixtureRequest, person: Person, published: str) -> Iterator[str]:
    """Start an engine that is found without settings; the default one belongs to root."""
    with docker_of(person) if request.param == "docker" else podman_of(person, published):
        yield request.param


# docker of Debian 12 does not read zstd; builds of rootless docker need a network, which it does not have here
ONLY_PODMAN = pytest.mark.parametrize("own_engine", ["podman"], indirect=True)


def test_an_image_is_pulled_proven_and_run(person: Person, toy: Toy, published: str, own_engine: str) -> None:
    common = (toy.id, "--matrices", str(person.home / "matrices"), "--registry", published)
    pulled = succeeded(person.envbuilder("pull", *common))
    assert pulled.stdout.strip() == toy.image(published)
    proven = person.envbuilder("validate", *common)
    assert proven.returncode == 0, proven.stdout + proven.stderr
    assert "import" in proven.stdout
    out = person.home / f"out-{own_engine}"
    assert person.run("mkdir", str(out)).returncode == 0
    script = "id --user && python3 -c 'import tqdm' && echo done > /out/result"
    ran = person.envbuilder("run", *common, "--volume", f"{out}:/out", "--", "bash", "-c", script)
    assert (ran.returncode, ran.stdout) == (0, "0\n"), ran.stderr
    written = (out / "result").stat()
    assert written.st_uid == person.number, "what root writes in the container belongs to the caller"


@ONLY_PODMAN
def test_podman_gets_layers_of_zstd(person: Person, toy: Toy, published: str, own_engine: str) -> None:
    succeeded(run("push", toy.id, "--matrices", str(toy.matrices), "--registry", published, "--zstd"))
    name = toy.image(published)
    assert person.run("podman", "rmi", "--force", name).returncode == 0
    client, tag = Registry(published), name.rpartition(":")[2]
    plain, small = (client.manifest("toy", item).document for item in (tag, f"{tag}-zstd"))
    assert plain["config"]["digest"] == small["config"]["digest"]
    sizes = [sum(layer["size"] for layer in found["layers"]) for found in (plain, small)]
    assert sizes[1] < sizes[0]
    pulled = succeeded(
        person.envbuilder("pull", toy.id, "--matrices", str(person.home / "matrices"), "--registry", published)
    )
    assert f"{tag}-zstd@sha256:" in pulled.stderr and pulled.stdout.strip() == name
    ran = person.envbuilder(
        "run", name, "--matrices", str(person.home / "matrices"), "--", "python3", "-c", "import tqdm"
    )
    assert ran.returncode == 0, ran.stderr


@ONLY_PODMAN
def test_a_build_names_what_is_missing(person: Person, toy: Toy, own_engine: str) -> None:
    result = person.envbuilder("build", toy.id, "--matrices", str(person.home / "matrices"))
    assert result.returncode == 5
    assert "builds need BuildKit, which Podman Engine does not have" in result.stderr


@ONLY_PODMAN
def test_podman_alone_is_enough(person: Person, toy: Toy, published: str, own_engine: str) -> None:
    """The machine has no docker command."""
    programs = person.home / "bin"
    programs.mkdir()
    for name in ("podman", "bash", "env"):
        (programs / name).symlink_to(shutil.which(name) or name)
    common = (toy.id, "--matrices", str(person.home / "matrices"), "--registry", published)
    alone: Mapping[str, str] = {"PATH": str(programs)}
    proven = person.envbuilder("validate", *common, **alone)
    assert proven.returncode == 0, proven.stdout + proven.stderr
    ran = person.envbuilder("run", *common, "--", "echo", "fine", **alone)
    assert (ran.returncode, ran.stdout) == (0, "fine\n"), ran.stderr


def test_an_engine_of_root_is_refused_with_a_message(person: Person, toy: Toy) -> None:
    address = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    result = person.envbuilder("images", DOCKER_HOST=address)
    assert result.returncode == 5
    assert "this user may not use the docker engine" in result.stderr and "podman.socket" in result.stderr
