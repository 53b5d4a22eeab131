"""Which docker command runs builds, on machines that have none, one or several."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from envbuilder.docker.buildkit import Silent
from envbuilder.docker.buildx import Build, run
from envbuilder.docker.client import _programs, build_command
from envbuilder.docker.engine import Docker
from envbuilder.errors import EnvbuilderError

BUILDX = "github.com/docker/buildx v0.13.1"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Make two folders that are the whole search path."""
    found = tmp_path / "first", tmp_path / "second"
    for folder in found:
        folder.mkdir()
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, found)))
    return found


def docker(folder: Path, version: str, *, buildx: str = "", failure: int = 1) -> str:
    """Write a docker command of this version, with or without buildx, that records how it is called to build."""
    program = folder / "docker"
    program.write_text(
        "#!/bin/sh\n"
        f'case "$*" in\n"buildx version") {f"echo {buildx}" if buildx else f"exit {failure}"};;\n'
        f'--version) echo "{version}";;\n'
        f'*) echo "$DOCKER_BUILDKIT $*" >> "{folder}/calls";;\nesac\n'
    )
    program.chmod(0o755)
    return str(program)


def old(folder: Path) -> str:
    return docker(folder, "Docker version 20.10.24+dfsg1, build 297e128")


def bare(folder: Path) -> str:
    """Write a docker command that has neither BuildKit nor buildx."""
    return docker(folder, "Docker version 28.2.2, build e6534b4")


def test_a_docker_without_buildkit_is_passed_over(folders: tuple[Path, Path]) -> None:
    bare(folders[0])
    second = old(folders[1])
    assert build_command() == [second, "build"]


def test_a_docker_with_buildx_is_preferred(folders: tuple[Path, Path]) -> None:
    old(folders[0])
    program = docker(folders[1], "Docker version 28.2.2, build e6534b4", buildx=BUILDX)
    assert build_command() == [program, "buildx", "build"]


def test_the_first_of_two_that_fit_is_taken(folders: tuple[Path, Path]) -> None:
    first = old(folders[0])
    old(folders[1])
    assert build_command() == [first, "build"]


def test_a_docker_in_two_folders_is_started_once(folders: tuple[Path, Path]) -> None:
    first = old(folders[0])
    (folders[1] / "docker").symlink_to(first)
    assert list(_programs(os.environ["PATH"])) == [first]


def test_a_docker_that_is_podman_is_passed_over(folders: tuple[Path, Path]) -> None:
    docker(folders[0], "podman version 4.3.1", buildx="buildah 1.28.2")
    second = old(folders[1])
    assert build_command() == [second, "build"]


def test_a_docker_that_cannot_be_started_is_passed_over(folders: tuple[Path, Path]) -> None:
    program = folders[0] / "docker"
    program.write_bytes(b"\x7fELF of another machine")
    program.chmod(0o755)
    second = old(folders[1])
    assert build_command() == [second, "build"]


def test_if_no_docker_can_build_the_plugin_is_named(folders: tuple[Path, Path]) -> None:
    program = bare(folders[0])
    with pytest.raises(EnvbuilderError, match=program) as raised:
        build_command()
    assert raised.value.hint and "docker-buildx-plugin" in raised.value.hint


@pytest.mark.usefixtures("folders")
def test_without_a_docker_its_package_is_named() -> None:
    with pytest.raises(EnvbuilderError, match="not installed") as raised:
        build_command()
    assert raised.value.hint and "docker-cli" in raised.value.hint


def test_builds_and_labels_use_the_same_docker(folders: tuple[Path, Path], tmp_path: Path) -> None:
    bare(folders[0])
    old(folders[1])
    run(Build(tmp_path, {}, {}, None, tmp_path / "log", tag="x:1"), Silent())
    Docker.label(Docker.__new__(Docker), "x:1", {"a": "b"}, "x:2")
    Docker.label(Docker.__new__(Docker), "x:1", {"a": "b"}, "x:2", "linux/arm64")
    assert not (folders[0] / "calls").exists()
    built, labelled, foreign = (folders[1] / "calls").read_text().splitlines()
    assert built == f"1 build --progress plain --tag x:1 {tmp_path}"
    assert labelled == "1 build --quiet --tag x:2 -"
    assert foreign == "1 build --quiet --tag x:2 --platform linux/arm64 -", "an image keeps its architecture"
