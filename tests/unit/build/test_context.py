"""The build context that the engine gets, and a build whose wheels cannot be kept."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from envbuilder.build.build import _BILL, _context, _keep_wheels, _Prepared
from envbuilder.docker.buildkit import Listener, StepResult
from envbuilder.docker.buildx import Build
from envbuilder.inputs.kept_wheels import WheelCache
from envbuilder.matrix import Matrix
from envbuilder.plan import make_plan
from envbuilder.progress import Progress
from tests.conftest import A2_VLLM, environment

STAGE = "wheels-vllm_ascend"


@pytest.fixture
def _private() -> Iterator[None]:
    """Set a umask that gives other users no access."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def prepared(matrix: Matrix, kept: dict[str, list[Path]]) -> _Prepared:
    plan = replace(make_plan(environment(matrix, A2_VLLM)), bill=_BILL)
    return _Prepared("base", {}, None, {}, plan, "{}", {STAGE: {"a": 1}}, kept)


@pytest.mark.usefixtures("_private")
def test_every_user_can_read_the_files_of_the_build_context(matrix: Matrix, tmp_path: Path) -> None:
    wheel = tmp_path / "x-1-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    context = _context(tmp_path / "context", prepared(matrix, {STAGE: [wheel]}))
    modes = {str(path.relative_to(context)): stat.S_IMODE(path.stat().st_mode) for path in context.rglob("*")}
    assert modes[_BILL] == modes[f"wheels/{STAGE}/{wheel.name}"] == 0o644
    assert modes["wheels"] == modes[f"wheels/{STAGE}"] == 0o755


class Messages:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


def test_wheels_that_cannot_be_kept_do_not_fail_a_build(
    matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(build: Build, listener: Listener) -> list[StepResult]:
        return []

    monkeypatch.setattr("envbuilder.build.build.run", made)
    (tmp_path / "file").write_text("")
    task = Build(context=tmp_path, secrets={}, arguments={}, platform=None, log=tmp_path / "log", tag="x")
    messages = Messages()
    cache = WheelCache(tmp_path / "file" / "cache")
    _keep_wheels(task, prepared(matrix, {}), cache, tmp_path / "wheels", cast(Progress, messages))
    (line,) = messages.lines
    assert line.startswith(f"warning: {STAGE} is not kept")
