"""Programs of another architecture: their emulator, and its name in evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from envbuilder import platforms
from envbuilder.docker import emulation, engine
from envbuilder.docker.emulation import emulator, processor
from envbuilder.docker.engine import Docker

ENTRY = """{state}
interpreter {program}
flags: {flags}
offset 0
magic 7f454c460201010000000000000000000200{number}00
mask ffffffffffffff00fffffffffffffffffeffffff
"""


@pytest.fixture
def register(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that registers an emulator on a machine with x86_64."""
    program = tmp_path / "qemu"
    program.write_text("#!/bin/sh\necho 'qemu-aarch64 version 7.2.22 (Debian 1:7.2+dfsg-7)'\necho Copyright\n")
    program.chmod(0o755)
    folder = tmp_path / "binfmt_misc"
    folder.mkdir()
    (folder / "register").touch()
    (folder / "status").write_text("enabled\n")
    (folder / "python3-11").write_text("enabled\ninterpreter /usr/bin/python3.11\nflags: \nextension .pyc\n")
    monkeypatch.setattr(emulation, "_REGISTERED", folder)
    monkeypatch.setattr(platforms, "arch", lambda *_: "x86_64")

    def add(**changed: str) -> None:
        values = {"state": "enabled", "program": str(program), "flags": "OCF", "number": "b7", **changed}
        (folder / "qemu-aarch64").write_text(ENTRY.format(**values))

    return add


def test_an_emulator_is_named_with_its_version(register: Any) -> None:
    assert emulator("aarch64") is None
    register()
    assert emulator("aarch64") == "qemu-aarch64 7.2.22"
    assert processor("aarch64") == "aarch64 by qemu-aarch64 7.2.22 on x86_64"
    assert (emulator("x86_64"), processor("x86_64")) == (None, "x86_64"), "its own programs need none"


@pytest.mark.parametrize("changed", [{"state": "disabled"}, {"flags": "OC"}, {"number": "f3"}])
def test_an_emulator_that_starts_no_program_in_a_container(register: Any, changed: dict[str, str]) -> None:
    register(**changed)
    assert emulator("aarch64") is None


def test_an_emulator_whose_program_was_removed(register: Any) -> None:
    register(program="/nowhere/qemu")
    assert emulator("aarch64") == "qemu-aarch64", "the kernel still has it open"


@pytest.mark.parametrize(("root", "runs"), [("/", True), ("/nowhere", False)])
def test_an_engine_on_another_machine_emulates_nothing(root: str, runs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "emulator", lambda _: "qemu")
    docker = Docker.__new__(Docker)
    docker._client = Mock(**{"info.return_value": {"Architecture": "x86_64", "DockerRootDir": root}})
    assert (docker.runs("x86_64"), docker.runs("aarch64")) == (True, runs)
    assert (docker.platform("x86_64"), docker.platform("aarch64")) == (None, "linux/arm64")
