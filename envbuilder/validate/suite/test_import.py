"""Imports every top module of the stack in its own process: one import may hide what another lacks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from testinfra.backend.base import CommandResult

from envbuilder.validate.suite.conftest import EXPECTED


@pytest.mark.each("modules", names=("module",))
def test_import(module: str, run: Callable[..., CommandResult]) -> None:
    answer = run("python3", "-c", f"import {module}")
    if answer.rc == 0:
        return
    errors = answer.stderr.strip()
    for library, owner in EXPECTED["libraries"].items():
        if owner and library in errors:
            pytest.skip(f"needs {owner}: {library} is missing")
    last = errors.splitlines()[-1] if errors else f"it ended with code {answer.rc}"
    pytest.fail(f"import {module}: {last}", pytrace=False)
