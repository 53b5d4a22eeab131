"""The build context for the engine, and a build whose wheels cannot be kept."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from envbuilder.build.build import _keep_wheels, _lay_out, _Wheels
from envbuilder.build.gather import Gathered
from envbuilder.docker.buildkit import Listener, StepResult
from envbuilder.docker.buildx import Build
from envbuilder.inputs.kept_wheels import WheelCache
from envbuilder.matrix import Matrix
from envbuilder.progress import Progress
from tests.conftest import A2_VLLM, environment

STAGE = "wheels-vllm_ascend"


@pytest.fixture
def _private() -> Iterator[None]:
    """Set a umask that gives other users no access."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def wheels(**kept: list[Path]) -> _Wheels:
    return _Wheels({STAGE: {"a": 1}}, kept)


@pytest.mark.usefixtures("_private")
def test_every_user_can_read_the_files_of_the_build_context(matrix: Matrix, tmp_path: Path) -> None:
    wheel = tmp_path / "x-1-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    gathered = Gathered(environment(matrix, A2_VLLM), "base", "sha256:0", {}, {}, None)
    context = _lay_out({"locks/x": ""}, gathered, wheels(**{STAGE: [wheel]}), tmp_path / "context")
    modes = {str(path.relative_to(context)): stat.S_IMODE(path.stat().st_mode) for path in context.rglob("*")}
    assert modes["locks/x"] == modes[f"wheels/{STAGE}/{wheel.name}"] == 0o644
    assert modes["locks"] == modes["wheels"] == modes[f"wheels/{STAGE}"] == 0o755


class Messages:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


def test_wheels_that_cannot_be_kept_do_not_fail_a_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(build: Build, listener: Listener) -> list[StepResult]:
        return []

    monkeypatch.setattr("envbuilder.build.build.run", made)
    (tmp_path / "file").write_text("")
    task = Build(context=tmp_path, secrets={}, arguments={}, platform=None, log=tmp_path / "log", tag="x")
    messages = Messages()
    cache = WheelCache(tmp_path / "file" / "cache")
    _keep_wheels(task, wheels(), cache, tmp_path / "wheels", cast(Progress, messages))
    (line,) = messages.lines
    assert line.startswith(f"warning: {STAGE} is not kept")
