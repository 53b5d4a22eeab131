"""Runs the suite against a target in a separate process, and yields each check as soon as it is made."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TextIO

from envbuilder.errors import EnvbuilderError, HostError
from envbuilder.language import tr
from envbuilder.paths import with_extra
from envbuilder.validate.expected import Expected
from envbuilder.validate.report import Check, ValidationLevel

_SUITE = Path(__file__).parent / "suite"
_TESTS_FAILED, _NO_TESTS = 1, 5
_PAUSE = 0.1


def require_suite() -> None:
    """Raise an error where the packages that the suite runs with are not installed."""
    missing = [name for name in ("pytest", "testinfra") if find_spec(name) is None]
    if missing:
        raise HostError(
            tr("{missing}, with which images are proven, are not installed", missing=tr(" and ").join(missing)),
            hint=tr("{command}; --no-validate builds without a proof", command=with_extra("validate")),
        )


def run_suite(level: ValidationLevel, expected: Expected, address: str, folder: Path) -> Iterator[Check]:
    """Run the checks of one level. `address` is the target in the notation of testinfra."""
    wanted, answers = folder / f"{level}.json", folder / f"{level}.answers"
    wanted.write_text(json.dumps(asdict(expected)), encoding="utf-8")
    answers.touch()
    command = [
        sys.executable, "-m", "pytest", str(_SUITE / f"test_{level}.py"), f"--hosts={address}", "--quiet",
        "-p", "envbuilder.validate.suite.relay", "-p", "no:cacheprovider", "-c", os.devnull, f"--rootdir={_SUITE}",
    ]  # fmt: skip
    variables = {"ENVBUILDER_EXPECTED": str(wanted), "ENVBUILDER_RELAY": str(answers), "PYTHONDONTWRITEBYTECODE": "1"}
    # PYTEST_* variables hold options for the user's own tests, not for the suite
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    log = folder / f"{level}.log"
    with log.open("w", encoding="utf-8") as output, answers.open(encoding="utf-8") as lines:
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**kept, **variables}, cwd=folder)  # noqa: S603
        try:
            while process.poll() is None:
                yield from _read(lines, level)
                time.sleep(_PAUSE)
            yield from _read(lines, level)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    # the process ends with the same code when a plugin or setting of the user prevents it from starting
    is_silent = process.returncode == _TESTS_FAILED and answers.stat().st_size == 0
    if is_silent or process.returncode not in {0, _TESTS_FAILED, _NO_TESTS}:
        last_lines = log.read_text(encoding="utf-8").splitlines()[-20:]
        raise EnvbuilderError("\n".join([tr("the {level} checks could not be run:", level=level), *last_lines]))


def _read(lines: TextIO, level: ValidationLevel) -> Iterator[Check]:
    """Yield the checks written since the last call; a line that is still incomplete is left for the next call."""
    while True:
        place, line = lines.tell(), lines.readline()
        if not line.endswith("\n"):
            lines.seek(place)
            return
        yield Check(level=level, **json.loads(line))
