"""Shared by all tests: the built-in matrix, changed copies of it, and the commands."""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from hypothesis import settings

from envbuilder import paths
from envbuilder.check import Finding, check_environment
from envbuilder.cli import main
from envbuilder.environment import Environment, resolve
from envbuilder.environment.select import pick
from envbuilder.matrix import Matrix, load

# the time of an example depends on the machine, not on the code
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

Edit = Callable[..., Path]
Result = subprocess.CompletedProcess[str]

A3_SGLANG = "verl-v0.6.0-sglang-a3-aarch64"
A2_VLLM = "verl-v0.5.0-vllm-a2-aarch64"
A2_X86 = "verl-v0.4.1-vllm-a2-x86_64"
OPENRLHF = "openrlhf-v0.7.5-vllm-a2-aarch64"


@pytest.fixture(scope="session", autouse=True)
def _own_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep caches and settings of the user away from the tests, and wait long for the network."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
        patch.setenv("LANGUAGE", "en")
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "config"))
        for name, value in (("UV_HTTP_TIMEOUT", "180"), ("UV_HTTP_RETRIES", "5")):
            patch.setenv(name, value)
        for name in ("ENVBUILDER_MATRICES", "ENVBUILDER_HW", "ENVBUILDER_MACHINE", "ENVBUILDER_JSON", "NO_COLOR"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session")
def matrix() -> Matrix:
    return load(everything=True)


@pytest.fixture
def edit(tmp_path: Path) -> Edit:
    return editing(tmp_path / "overlay")


def editing(folder: Path) -> Edit:
    """Return a function that replaces a text of a built-in file in an overlay folder; the text must exist."""

    def change(relative: str, old: str, new: str, *, count: int = 1) -> Path:
        path = folder / relative
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(paths.matrices() / relative, path)
        text = path.read_text(encoding="utf-8")
        assert old in text, f"{relative} does not contain {old!r}"
        path.write_text(text.replace(old, new, count), encoding="utf-8")
        return folder

    return change


def run(*arguments: str, **variables: str) -> Result:
    """Run the command in this process, which saves the start of Python; `start` runs it as a process."""
    out, err = io.StringIO(), io.StringIO()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    code: object = 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["envbuilder", *arguments])
        for name, value in variables.items():
            patch.setenv(name, value)
        try:
            main()
        except SystemExit as end:
            code = end.code
        except Exception:
            # Python ends so after an uncaught exception
            traceback.print_exc()
            code = 1
    for number, handler in handlers.items():
        signal.signal(number, handler)
    assert code is None or isinstance(code, int)
    return Result(["envbuilder", *arguments], code or 0, out.getvalue(), err.getvalue())


def succeeded(result: Result) -> Result:
    """Return the result of a command that has ended with exit code 0."""
    assert result.returncode == 0, result.stderr[-4000:]
    return result


def start(*arguments: str, **variables: str) -> Result:
    """Run the command as a process, as a user starts it."""
    return subprocess.run(
        [sys.executable, "-m", "envbuilder", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )


def environment(matrix: Matrix, identifier: str) -> Environment:
    return resolve(matrix, pick(matrix, identifier))


def findings(matrix: Matrix, identifier: str, code: str | None = None) -> list[Finding]:
    found = check_environment(environment(matrix, identifier))
    return [item for item in found if code is None or item.code == code]
