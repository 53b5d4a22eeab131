"""Exit codes: a command produces each one that the documents list, and the same lack has the same code everywhere."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from envbuilder import paths, platforms
from envbuilder.docker import client, engine
from envbuilder.inputs import debian_base
from envbuilder.lock import index
from envbuilder.registry import archive
from envbuilder.signing.keys import make_keys
from tests.conftest import A3_SGLANG, editing, run
from tests.helpers.training_logs import LOSS, REWARD, console, write

ROOT = Path(__file__).resolve().parents[2]
# nothing listens on this port
CLOSED = "127.0.0.1:9"
NO_ENGINE = {"DOCKER_HOST": f"tcp://{CLOSED}", "CONTAINER_HOST": f"tcp://{CLOSED}"}
OTHER = "aarch64" if platforms.arch() == "x86_64" else "x86_64"


# --- each code of the table ------------------------------------------------------------------------------------------


def ran(*words: str) -> int:
    return run(*words, **NO_ENGINE).returncode


def compared(folder: Path, offset: float, steps: int = 15) -> int:
    theirs = {LOSS: [0.1] * steps, REWARD: [0.05 * at for at in range(steps)]}
    ours = {**theirs, REWARD: [value + offset for value in theirs[REWARD]]}
    logs = [
        write(folder, f"{name}.log", console(series, device=name)) for name, series in (("npu", ours), ("cuda", theirs))
    ]
    return ran("compare", *logs)


def overwritten(folder: Path) -> int:
    (folder / "team.key").touch()
    return ran("keys", "new", str(folder / "team"))


def broken(folder: Path) -> int:
    changed = editing(folder)("frameworks/verl/v0.6.0.yaml", "date: 2025-10-15", "date: soon")
    return ran("list", "--matrices", str(changed))


def unreachable(folder: Path) -> int:
    return ran("pull", A3_SGLANG, "--registry", f"{CLOSED}/a", "--save", str(folder / "image.tar"))


def stopped(folder: Path, sent: int) -> int:
    """Send a signal to a command that reads a file."""
    pipe = folder / "report"
    os.mkfifo(pipe)
    process = subprocess.Popen(
        [sys.executable, "-m", "envbuilder", "diagnose", str(pipe)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # a shell without job control ignores interrupts of what it starts
        preexec_fn=lambda: [signal.signal(item, signal.SIG_DFL) for item in (signal.SIGINT, signal.SIGHUP)],
    )
    # waits until the command opens the file
    with pipe.open("wb"):
        process.send_signal(sent)
        return process.wait(60)


def unread(folder: Path) -> int:
    """Close the output of a command before it writes."""
    reader, writer = os.pipe()
    os.close(reader)
    variables = {**os.environ, "PYTHONUNBUFFERED": "1"}
    words = [sys.executable, "-m", "envbuilder", "list"]
    done = subprocess.run(words, stdout=writer, stderr=subprocess.DEVNULL, check=False, env=variables)
    os.close(writer)
    return done.returncode


PRODUCED: dict[int, Callable[[Path], int]] = {
    0: lambda _: ran("list"),
    1: overwritten,
    2: lambda _: ran("build", A3_SGLANG, "--rehearse", "--push"),
    3: broken,
    4: lambda _: ran("show", "nothing"),
    5: lambda _: ran("images"),
    6: lambda folder: compared(folder, 0.5),
    7: unreachable,
    8: lambda folder: compared(folder, 0.0, steps=5),
    129: lambda folder: stopped(folder, signal.SIGHUP),
    130: lambda folder: stopped(folder, signal.SIGINT),
    141: unread,
    143: lambda folder: stopped(folder, signal.SIGTERM),
}


def test_every_documented_code_is_produced_here() -> None:
    text = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    section = text.partition("## Exit codes\n")[2].partition("\n## ")[0]
    assert sorted(map(int, re.findall(r"(?:^- |, )(\d+) ", section, re.MULTILINE))) == sorted(PRODUCED)


@pytest.mark.parametrize("code", sorted(PRODUCED))
def test_a_command_ends_with_the_code(code: int, tmp_path: Path) -> None:
    assert PRODUCED[code](tmp_path) == code


# --- what this machine lacks -----------------------------------------------------------------------------------------

WITH_ENGINE: list[list[str]] = [
    ["base", "--hw", "cpu"],
    ["build", "--hw", "cpu"],
    ["diagnose", "--image", "a"],
    ["diff", "a:1", "a:2"],
    ["doctor", "--container", "a"],
    ["images"],
    ["images", "--prune"],
    ["load", "FILE"],
    ["pull", "--hw", "cpu", "--registry", "registry.example.com/a"],
    ["push", A3_SGLANG, "--registry", "registry.example.com/a"],
    ["quickstart", "--hw", "cpu", "--run"],
    ["run", "--hw", "cpu"],
    ["validate"],
    ["validate", A3_SGLANG],
]


def filled(words: Sequence[str], folder: Path) -> list[str]:
    """Return the words of a command with names of new files."""
    (folder / "team.key").write_bytes(make_keys(b"")[0])
    (folder / "image.tar").touch()
    files = {"FILE": "image.tar", "KEY": "team.key", "NEW": "new", "FOLDER": "folder"}
    return [str(folder / files[word]) if word in files else word for word in words]


@pytest.mark.parametrize("words", WITH_ENGINE, ids=" ".join)
def test_no_engine_is_code_5(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "verify", lambda _: archive.Archived("a:1", "sha256:0", "sha256:0", ()))
    result = run(*filled(words, tmp_path), **NO_ENGINE)
    assert result.returncode == 5 and result.stdout == "", result.stderr
    assert "hint: " in result.stderr


def test_every_command_with_an_engine_is_tested_without_one() -> None:
    commands = ROOT / "envbuilder/cli/commands"
    used = {path.stem for path in commands.glob("*.py") if "Docker()" in path.read_text(encoding="utf-8")}
    assert used and used <= {name for name, *_ in WITH_ENGINE}


@pytest.mark.parametrize(
    "words",
    [
        ["keys", "new", "NEW"],
        ["push", A3_SGLANG, "--registry", "registry.example.com/a", "--sign-key", "KEY"],
        ["pull", A3_SGLANG, "--registry", "registry.example.com/a", "--save", "NEW", "--verify-key", "KEY"],
        ["images", "--registry", "registry.example.com/a", "--verify", "--verify-key", "KEY"],
        ["compare", "FILE", "FILE", "--plot", "NEW.png"],
    ],
    ids=" ".join,
)
def test_a_missing_package_is_code_5(words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The packages of an extra are missing where it was not installed."""
    arguments = filled(words, tmp_path)
    for name in ("cryptography", "nacl", "matplotlib"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(engine, "Docker", lambda: SimpleNamespace(images=lambda _: []))
    result = run(*arguments, ENVBUILDER_KEY_PASSWORD="")
    assert result.returncode == 5 and "hint: pip install --editable" in result.stderr, result.stderr
    assert not (tmp_path / "new").exists()


def test_a_missing_uv_is_code_5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uv", None)
    index.uv_program.cache_clear()
    result = run("lock", A3_SGLANG)
    assert result.returncode == 5 and f"install {paths.DISTRIBUTION} again" in result.stderr


@pytest.mark.parametrize(
    ("programs", "message"),
    [
        ({}, "the docker command, which runs builds, is not installed"),
        ({"docker": "echo podman version 5.0"}, "cannot reach it without the plugin buildx"),
    ],
)
def test_a_missing_program_of_builds_is_code_5(
    programs: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Exception, match=message) as caught:
        client.build_command()
    assert getattr(caught.value, "exit_code", None) == 5


def test_a_missing_emulator_is_code_5(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(debian_base, "emulator", lambda _: None)
    monkeypatch.setattr(
        engine, "Docker", lambda: SimpleNamespace(arch=platforms.arch(), image=lambda _: None, runs=lambda _: False)
    )
    result = run("base", "--hw", "cpu", "--arch", OTHER)
    assert result.returncode == 5 and f"{OTHER} is not emulated" in result.stderr


def test_a_missing_mmdebstrap_is_code_5(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    here = SimpleNamespace(arch=platforms.arch(), image=lambda _: None, runs=lambda _: True)
    monkeypatch.setattr(engine, "Docker", lambda: here)
    result = run("base", "--hw", "cpu", "--arch", platforms.arch())
    assert result.returncode == 5 and "mmdebstrap, which makes the base image, is not installed" in result.stderr
