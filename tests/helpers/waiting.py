"""Waiting for a condition, with a limit."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any


def wait_until(
    met: Callable[[], object],
    failure: Callable[[], str],
    seconds: float = 60,
    process: subprocess.Popen[Any] | None = None,
) -> None:
    """Wait until `met` returns a true value; fail with a text after this time, or when the process ends before."""
    late = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < late and (process is None or process.poll() is None), failure()
        time.sleep(0.2)
