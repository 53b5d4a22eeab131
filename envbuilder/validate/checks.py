"""Runs the suite against a target, in a process of its own, and hands on each answer as it comes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from envbuilder.errors import EnvbuilderError
from envbuilder.validate.expected import Expected
from envbuilder.validate.report import Check, ValidationLevel

_SUITE = Path(__file__).parent / "suite"
_TESTS_FAILED, _NO_TESTS = 1, 5


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
    process = subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**kept, **variables}
    )
    try:
        assert process.stdout is not None  # noqa: S101
        with answers.open(encoding="utf-8") as told:
            said = []
            for line in process.stdout:
                said.append(line)
                yield from _read(told, level)
            process.wait()
            yield from _read(told, level)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    if process.returncode not in {0, _TESTS_FAILED, _NO_TESTS}:
        raise EnvbuilderError(f"the {level} checks could not be run:\n{''.join(said[-20:]).strip()}")


def _read(told: Iterator[str], level: ValidationLevel) -> Iterator[Check]:
    for line in told:
        yield Check(level=level, **json.loads(line))
