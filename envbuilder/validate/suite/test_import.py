"""Imports every module of the stack in its own process: one import may hide what another lacks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from testinfra.backend.base import CommandResult
from testinfra.host import Host

from envbuilder.validate.suite.conftest import EXPECTED, run_on

# otherwise torch starts processes at once, as many as there are processors, which wait for something to compile
PYTHON = ("env", "TORCHINDUCTOR_COMPILE_THREADS=1", "python3", "-c")


# modules of a training run are imported with its variables, which let those for an accelerator be imported on a CPU
_RUN = ("env", *(f"{name}={value}" for name, value in EXPECTED["run_variables"].items()))
_ALL = dict.fromkeys((*EXPECTED["modules"], *EXPECTED["used"]))


def _importing(module: str) -> tuple[str, ...]:
    return (*(_RUN if module in EXPECTED["used"] else ()), *PYTHON, f"import {module}")


@pytest.fixture(scope="module")
def imports(host: Host) -> Iterator[dict[str, Future[CommandResult]]]:
    """Return the imports, which run beside each other: a module of an engine takes half a minute."""
    # no more than processors: each holds the libraries of torch
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield {name: pool.submit(run_on, host, *_importing(name)) for name in _ALL}


@pytest.mark.each("devices", names=("expression", "wanted"))
def test_device_of_the_engine(expression: str, wanted: str, run: Callable[..., CommandResult]) -> None:
    """An engine that does not find its plugin takes another device, or none, and imports everything."""
    module, _, value = expression.partition(":")
    # among the lines of the engine
    answer = run(*PYTHON, f"import {module}; print('\\ndevice:' + {module}.{value})")
    found = [line.removeprefix("device:") for line in answer.stdout.splitlines() if line.startswith("device:")]
    assert found == [wanted], (
        f"{expression} is {found[0]!r}, and not {wanted!r}: the plugin of the engine is not found"
        if found
        else f"{expression}: {(answer.stderr.strip().splitlines() or ['it printed nothing'])[-1]}"
    )


@pytest.mark.parametrize("module", _ALL)
def test_import(module: str, imports: dict[str, Future[CommandResult]], run: Callable[..., CommandResult]) -> None:
    first = imports[module]
    # many at once may have been too much for the machine, which could then not even start one: the second answer counts
    answer = run(*_importing(module)) if first.exception() or first.result().rc != 0 else first.result()
    if answer.rc == 0:
        return
    errors = answer.stderr.strip()
    for library, owner in EXPECTED["libraries"].items():
        if owner and library in errors:
            pytest.skip(f"needs {owner}: {library} is missing")
    last = errors.splitlines()[-1] if errors else f"it ended with code {answer.rc}"
    pytest.fail(f"import {module}: {last}", pytrace=False)
