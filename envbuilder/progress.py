"""The protocol for the progress of long work: the command line shows it, tests collect it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from envbuilder.language import tr


class Progress(Protocol):
    def say(self, text: str) -> None: ...
    def expect(self, titles: Sequence[str]) -> None: ...
    def started(self, title: str) -> None: ...
    def said(self, title: str, line: str) -> None: ...

    def noted(self, title: str, line: str) -> None:
        """Like `said`, for a line that is also shown where no progress is drawn."""

    def ended(self, title: str, how: str) -> None: ...


def bar(done: int, total: int) -> str:
    """Return a progress bar for a number of bytes."""
    filled = round(20 * done / total) if total else 20
    done_mb, total_mb = f"{done / 10**6:.0f}", f"{total / 10**6:.0f}"
    return f"{'█' * filled}{'░' * (20 - filled)} " + tr("{done} of {total} MB", done=done_mb, total=total_mb)
