"""The lock command when it is interrupted."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from envbuilder.cli.commands.lock import cancelling


def test_an_interruption_cancels_the_resolutions_that_have_not_begun() -> None:
    begun, done = threading.Event(), threading.Event()

    def resolve() -> None:
        begun.set()
        done.wait(60)

    tasks: list[Future[None]] = []

    def interrupted() -> None:
        with ThreadPoolExecutor(1) as pool, cancelling(pool):
            tasks.extend(pool.submit(resolve) for _ in range(3))
            begun.wait(60)
            threading.Timer(0.1, done.set).start()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [task.cancelled() for task in tasks] == [False, True, True]
