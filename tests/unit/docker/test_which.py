"""The engine that is used: that of docker's command, or one that the user runs without root."""

from __future__ import annotations

import json
import os
import socket
from hashlib import sha256
from pathlib import Path

import pytest

from envbuilder.docker import which


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a machine on which no setting names an engine."""
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST"):
        # set first, so that values that the test sets are removed afterwards
        monkeypatch.setenv(name, "x")
        monkeypatch.delenv(name)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setattr(which, "_DEFAULT", str(tmp_path / "absent"))
    # the name of a socket has at most 107 characters
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make_socket(path: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path)


def context(folder: Path, name: str, address: str) -> None:
    place = folder / "config/contexts/meta" / sha256(name.encode()).hexdigest()
    place.mkdir(parents=True)
    (place / "meta.json").write_text(json.dumps({"Name": name, "Endpoints": {"docker": {"Host": address}}}))


def named() -> str | None:
    which.name_engine()
    assert os.environ.get("CONTAINER_HOST") == os.environ.get("DOCKER_HOST"), "podman's command reads this one"
    return os.environ.get("DOCKER_HOST")


def test_no_engine_is_named_if_none_is_found() -> None:
    assert named() is None


def test_a_variable_wins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context(folder, "other", "unix:///context.sock")
    monkeypatch.setenv("DOCKER_CONTEXT", "other")
    monkeypatch.setenv("DOCKER_HOST", "tcp://somewhere:2376")
    assert named() == "tcp://somewhere:2376"


def test_the_context_that_the_setup_without_root_chooses(folder: Path) -> None:
    context(folder, "rootless", "unix:///run/user/7/docker.sock")
    make_socket("run/docker.sock")
    (folder / "config/config.json").write_text('{"currentContext": "rootless"}')
    assert named() == "unix:///run/user/7/docker.sock"


def test_a_folder_in_the_home_of_the_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context(folder, "other", "unix:///context.sock")
    (folder / "config/config.json").write_text('{"currentContext": "other"}')
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("DOCKER_CONFIG", "~/config")
    assert named() == "unix:///context.sock"


@pytest.mark.parametrize("address", [5, None, ["a"], "a\0b", "\ud800", ""])
def test_an_address_that_no_variable_can_have_is_ignored(folder: Path, address: object) -> None:
    context(folder, "other", "unix:///x")
    place = next((folder / "config/contexts/meta").glob("*/meta.json"))
    place.write_text(json.dumps({"Endpoints": {"docker": {"Host": address}}}))
    (folder / "config/config.json").write_text('{"currentContext": "other"}')
    assert named() is None


@pytest.mark.parametrize(
    "text",
    ['{"currentContext": ' + "[" * 100_000, '{"currentContext": "absent"}', '{"currentContext": 5}', "[]", "{", "\x00"],
    ids=len,
)
def test_a_broken_context_is_ignored(folder: Path, text: str) -> None:
    (folder / "config").mkdir()
    (folder / "config/config.json").write_text(text)
    assert named() is None


def test_an_engine_of_this_user(folder: Path) -> None:
    make_socket("run/podman/podman.sock")
    assert named() == f"unix://{folder}/run/podman/podman.sock"
    del os.environ["DOCKER_HOST"]
    make_socket("run/docker.sock")
    assert named() == f"unix://{folder}/run/docker.sock", "docker builds too"


def test_the_default_engine_is_used_if_the_user_may_use_it(folder: Path) -> None:
    make_socket("run/docker.sock")
    (folder / "absent").touch()
    assert named() is None


def test_each_engine_has_its_command(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder))
    assert which.program() == "docker", "the error names it"
    for name in ("podman", "docker"):
        (folder / name).touch(mode=0o755)
        assert which.program() == name
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/user/7/podman/podman.sock")
    assert which.program() == "podman"


def test_the_owner_of_an_engine(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not which.is_without_root()
    make_socket("run/docker.sock")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{folder}/run/docker.sock")
    assert which.is_without_root() is (os.getuid() != 0)
    if os.getuid() == 0:
        os.chown(folder / "run/docker.sock", 1000, 1000)
        assert which.is_without_root()
    monkeypatch.setenv("DOCKER_HOST", "tcp://somewhere:2376")
    assert not which.is_without_root()
