"""A pytest plugin that writes the outcome of each test as a line of JSON, for the process that started pytest."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

_ASSERTION = re.compile(r"^(?:AssertionError|Failed): (?P<message>.*?)(?:\nassert .*)?$", re.DOTALL)
_STATUS = {"passed": "passed", "failed": "failed", "skipped": "not-checked"}
_HOST = r"(?:(?:docker|podman)://\w+|local)"


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    # for an expectation without items pytest reports one skipped test, which is not a check
    if (report.when == "call" or not report.passed) and "NOTSET" not in report.nodeid:
        item = {
            "name": _name(report.nodeid),
            "status": _STATUS[report.outcome],
            "message": _message(report),
            "seconds": round(report.duration, 3),
        }
        with Path(os.environ["ENVBUILDER_RELAY"]).open("a", encoding="utf-8") as file:
            file.write(json.dumps(item) + "\n")


def _name(nodeid: str) -> str:
    """Return the name of a check: `pin torch` for `test_static.py::test_pin[docker://a1b2-torch]`."""
    test, _, parameters = nodeid.rpartition("::")[2].removesuffix("]").partition("[")
    words = test.removeprefix("test_").replace("_", " ")
    # testinfra adds the host as the last parameter, or as the first if the test has parameters of its own
    what, at_the_end = re.subn(f"(^|-){_HOST}$", "", parameters)
    if not at_the_end:
        what = re.sub(f"^{_HOST}-", "", parameters)
    return f"{words} {what}".strip()


def _message(report: pytest.TestReport) -> str:
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    if report.failed:
        crash = getattr(report.longrepr, "reprcrash", None)
        text = str(crash.message) if crash else str(report.longrepr)
        match = _ASSERTION.match(text)
        return " ".join((match["message"] if match else text).split())
    return ""
