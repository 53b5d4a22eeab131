"""Runs the suite against a target, in a process of its own, and hands on each answer as it comes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TextIO

from envbuilder.errors import EnvbuilderError
from envbuilder.validate.expected import Expected
from envbuilder.validate.report import Check, ValidationLevel

_SUITE = Path(__file__).parent / "suite"
_TESTS_FAILED, _NO_TESTS = 1, 5
_PAUSE = 0.1


def run_suite(level: ValidationLevel, expected: Expected, address: str, folder: Path) -> Iterator[Check]:
    """`address` is the target as testinfra calls it."""
    wanted, answers = folder / f"{level}.json", folder / f"{level}.answers"
    wanted.write_text(json.dumps(asdict(expected)), encoding="utf-8")
    answers.touch()
    command = [
        sys.executable, "-m", "pytest", str(_SUITE / f"test_{level}.py"), f"--hosts={address}", "--quiet",
        "-p", "envbuilder.validate.suite.relay", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={_SUITE}",
    ]  # fmt: skip
    variables = {"ENVBUILDER_EXPECTED": str(wanted), "ENVBUILDER_RELAY": str(answers), "PYTHONDONTWRITEBYTECODE": "1"}
    # options of a user's own pytest are not for this one
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    said = folder / f"{level}.said"
    with said.open("w", encoding="utf-8") as output, answers.open(encoding="utf-8") as told:
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**kept, **variables}, cwd=folder)  # noqa: S603
        try:
            while process.poll() is None:
                yield from _read(told, level)
                time.sleep(_PAUSE)
            yield from _read(told, level)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    # it also ends so where something of the user's kept it from beginning
    is_silent = process.returncode == _TESTS_FAILED and answers.stat().st_size == 0
    if is_silent or process.returncode not in {0, _TESTS_FAILED, _NO_TESTS}:
        lines = said.read_text(encoding="utf-8").splitlines()[-20:]
        raise EnvbuilderError("\n".join([f"the {level} checks could not be run:", *lines]))


def _read(told: TextIO, level: ValidationLevel) -> Iterator[Check]:
    """The answers since the last time; one that is still being written is left for the next."""
    while True:
        place, line = told.tell(), told.readline()
        if not line.endswith("\n"):
            told.seek(place)
            return
        yield Check(level=level, **json.loads(line))
