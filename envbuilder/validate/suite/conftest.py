"""Fixtures of the suite: the expected state, and the inventory of the target."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from testinfra.backend.base import CommandResult
from testinfra.host import Host

EXPECTED: dict[str, Any] = json.loads(Path(os.environ["ENVBUILDER_EXPECTED"]).read_text(encoding="utf-8"))


def run_on(host: Host, *command: str) -> CommandResult:
    """Run a command in bash, which sets up the vendor's paths as it does for a user."""
    return host.run("bash -c %s", shlex.join(command))


@pytest.fixture
def run(host: Host) -> Callable[..., CommandResult]:
    return partial(run_on, host)


def listed(host: Host, script: str, *arguments: str) -> dict[str, Any]:
    """Return what a script of this folder prints on the target."""
    text = Path(__file__).with_name(f"{script}.py").read_text(encoding="utf-8")
    answer = run_on(host, "python3", "-c", text, EXPECTED["sources"], *arguments)
    assert answer.rc == 0, f"Python cannot list the {script}: {answer.stderr.strip()}"
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


@pytest.fixture(scope="module")
def inventory(host: Host) -> dict[str, Any]:
    """Return all packages and source trees, which one command reads for all tests."""
    return listed(host, "inventory", *EXPECTED["trees"])


@pytest.fixture(scope="module")
def suspects(host: Host) -> dict[str, dict[str, str]]:
    """Return the files that no image should have, by kind, each with its reason."""
    return listed(host, "suspects", *filter(None, [EXPECTED["vendor"]]))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that is marked `each(KEY)` once for every item of that expectation."""
    marker = metafunc.definition.get_closest_marker("each")
    if marker is not None:
        items = EXPECTED[marker.args[0]]
        pairs = list(items.items()) if isinstance(items, dict) else [(item,) for item in items]
        name = marker.kwargs.get("id", lambda item: item[0])
        ids = [re.sub(r"[\[\]:]", "_", str(name(pair))) for pair in pairs]
        metafunc.parametrize(marker.kwargs["names"], pairs, ids=ids)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "each(key, names, id): once for every item of an expectation")
