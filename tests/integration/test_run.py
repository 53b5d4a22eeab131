"""Containers that are really started: their input and output, and that none is left."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from envbuilder import platforms
from tests.conftest import Result, succeeded
from tests.integration.conftest import BASE, Toy, build, command, docker, make_image, run

REGISTRY = "running"


@pytest.fixture(scope="module")
def image(toy: Toy) -> str:
    succeeded(build(*toy.arguments, "--registry", REGISTRY))
    return toy.image(REGISTRY)


@pytest.fixture(autouse=True)
def _nothing_stays(engine: None) -> Iterator[None]:
    before = containers()
    yield
    assert containers() == before


def containers() -> set[str]:
    """Return the containers of images that are built here; other tests may use the engine at the same time."""
    shown = docker("ps", "--all", "--format", "{{.ID}} {{.Image}}").splitlines()
    return {line for line in shown if line.split()[1].startswith(f"{REGISTRY}/")}


def start(toy: Toy, *arguments: str) -> Result:
    return run("run", toy.id, "--matrices", str(toy.matrices), "--registry", REGISTRY, *arguments)


def test_exit_code_and_output_are_those_of_the_command(toy: Toy, image: str) -> None:
    result = start(
        toy, "--", "python3", "-c", "import sys, toy; print('out'); print('err', file=sys.stderr); sys.exit(42)"
    )
    assert (result.returncode, result.stdout, result.stderr) == (42, "out\n", "err\n")


def test_standard_input_reaches_the_command(toy: Toy, image: str) -> None:
    words = command("run", toy.id, "--matrices", str(toy.matrices), "--registry", REGISTRY, "--", "cat", "-")
    result = subprocess.run(words, input="through\n", capture_output=True, text=True, check=True)
    assert result.stdout == "through\n"


def test_volumes_variables_and_memory(toy: Toy, image: str, tmp_path: Path) -> None:
    (tmp_path / "given").write_text("from outside")
    code = (
        "cat /fixed/given; echo x > /fixed/new; echo $? $WORD; echo made > /open/made; "
        "df --output=size --block-size=1M /dev/shm | tail -1; ls /dev | grep -c davinci; cat /proc/1/comm"
    )
    volumes = ("--volume", f"{tmp_path}:/fixed:ro", "--volume", f"{tmp_path}:/open")
    result = succeeded(start(toy, *volumes, "--env", "WORD=a b", "--shm-size", "128m", "--", "bash", "-c", code))
    assert result.stdout.split() == ["from", "outside1", "a", "b", "128", "0", "docker-init"]
    assert (tmp_path / "made").read_text() == "made\n" and not (tmp_path / "new").exists()


def test_a_missing_path_is_not_made(toy: Toy, image: str, tmp_path: Path) -> None:
    result = start(toy, "--volume", f"{tmp_path}/typo:/data", "--", "true")
    assert result.returncode == 5
    assert f"this host has no {tmp_path}/typo" in result.stderr and not (tmp_path / "typo").exists()


def test_an_image_names_its_environment(toy: Toy, image: str) -> None:
    result = run("run", image, "--matrices", str(toy.matrices), "--", "echo", "here")
    assert (result.returncode, result.stdout) == (0, "here\n"), result.stderr
    refused = run("run", image, "--matrices", str(toy.matrices), "--hw", "cpu", "--", "true")
    assert refused.returncode == 2 and "names its environment" in refused.stderr
    unknown = run("run", BASE, "--", "true")
    assert unknown.returncode == 2 and "so its needs are unknown" in unknown.stderr
    shown = run("run", BASE, "--hw", "cpu", "--", "printenv", "TORCH_DEVICE_BACKEND_AUTOLOAD")
    assert (shown.returncode, shown.stdout) == (0, "0\n"), shown.stderr


def test_a_missing_image(toy: Toy, engine: None) -> None:
    result = run("run", toy.id, "--matrices", str(toy.matrices), "--registry", "absent")
    assert result.returncode == 4
    assert f"envbuilder pull {toy.id}, or envbuilder build {toy.id}" in result.stderr


def test_an_image_under_the_name_of_another(toy: Toy, image: str) -> None:
    make_image(image, "LABEL envbuilder.environment=verl-of-another", toy.image("mistaken"))
    result = run("run", toy.id, "--matrices", str(toy.matrices), "--registry", "mistaken", "--", "true")
    assert result.returncode == 5
    assert f"is an image of verl-of-another, and not of {toy.id}" in result.stderr


def test_missing_hardware(toy: Toy, image: str) -> None:
    """The host is checked before anything is started."""
    identifier = "toy-v1-reel-a3-aarch64"
    make_image(image, f"LABEL envbuilder.environment={identifier}", f"{REGISTRY}/npu:1")
    result = run("run", f"{REGISTRY}/npu:1", "--matrices", str(toy.matrices), "--", "true")
    assert result.returncode == 5
    assert f"this host has no NPUs, and {identifier} is for Atlas A3" in result.stderr
    assert "--hw cpu needs no NPUs" in result.stderr


def test_a_container_in_the_background(toy: Toy, image: str) -> None:
    name = f"envbuilder-left-running-{uuid.uuid4().hex[:8]}"
    result = start(toy, "--detach", "--name", name)
    try:
        assert result.returncode == 0, result.stderr
        assert docker("inspect", "--format", "{{.Id}} {{.State.Running}}", name).split() == [
            result.stdout.strip(),
            "true",
        ]
        assert docker("exec", name, "echo", "in it") == "in it\n"
    finally:
        docker("rm", "--force", name)


def test_a_container_that_is_kept(toy: Toy, image: str) -> None:
    name = f"envbuilder-kept-{uuid.uuid4().hex[:8]}"
    result = start(toy, "--keep", "--name", name, "--", "false")
    assert result.returncode == 1
    assert docker("rm", name).strip() == name, "it is still there"


def test_a_terminal_is_a_terminal_inside(toy: Toy, image: str) -> None:
    words = " ".join(command("run", toy.id, "--matrices", str(toy.matrices), "--registry", REGISTRY, "--", "tty"))
    shown = subprocess.run(["script", "-qec", words, "/dev/null"], capture_output=True, text=True, check=False)
    assert shown.returncode == 0 and shown.stdout.strip().endswith("/dev/pts/0")
    assert start(toy, "--", "tty").stdout == "not a tty\n"


def test_what_is_installed_in_an_image_is_diagnosed(image: str) -> None:
    """The built-in matrices do not have the small row, but the Python of the image is found."""
    found = json.loads(run("diagnose", "--image", image, "--json").stdout)
    assert found["facts"]["python"].startswith("3.11") and found["facts"]["arch"] == platforms.arch()
    assert [item["code"] for item in found["findings"]] == ["cannot-tell"]
    absent = run("diagnose", "--image", "no/such:image")
    assert absent.returncode == 4 and "there is no image" in absent.stderr


def test_doctor_examines_a_container(engine: None) -> None:
    """A container has its own Python packages, and only the devices that it was given."""
    name = f"{REGISTRY}-{uuid.uuid4().hex[:8]}"
    docker("run", "--detach", "--rm", "--name", name, BASE, "sleep", "600")
    try:
        for package, version in (("torch", "2.8.0"), ("torch_npu", "2.7.1"), ("vllm", "0.11.0")):
            folder = f"$(python3 -c 'import site; print(site.getsitepackages()[0])')/{package}-{version}.dist-info"
            text = f"Metadata-Version: 2.1\\nName: {package}\\nVersion: {version}\\n"
            docker("exec", name, "bash", "-c", f"mkdir -p {folder} && printf '{text}' > {folder}/METADATA")
        result = succeeded(run("doctor", "--container", name))
        assert "it was given no NPU" in result.stdout and "torch is 2.8.0" in result.stdout
        fixes = run("doctor", "--container", name, "--fix").stdout.splitlines()
        assert "pip install torch==2.7.1 torch_npu==2.7.1" in fixes
    finally:
        docker("rm", "--force", name)
