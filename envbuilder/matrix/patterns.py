"""Regular expressions in the matrices: what is wrong with one, and a limit for the time of a search."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

from envbuilder.errors import MatrixError, Problem, Where
from envbuilder.language import tr

# CPU time; the slowest built-in symptom takes a third of it for a report of 64 KB that repeats its words
_SECONDS = 20
_SHOWN = 60


class _TooLongError(Exception):
    """A search has used up its time."""


def pattern_problems(pattern: str, where: Where) -> Iterator[Problem]:
    """Yield the problem of a text that is not a regular expression."""
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        reason = tr("it is nested too deeply") if isinstance(error, RecursionError) else error
        fields = {"pattern": pattern[:_SHOWN], "reason": reason}
        yield Problem(where, tr("'{pattern}' is not a regular expression: {reason}", **fields))


def first_place(patterns: Iterable[str], text: str, owner: str, where: Where) -> int | None:
    """Return the first place in a text that one of the patterns of an owner matches, in any case of its letters."""
    with bounded(owner, where):
        found = (re.search(pattern, text, re.IGNORECASE) for pattern in patterns)
        return min((match.start() for match in found if match), default=None)


@contextmanager
def bounded(owner: str, where: Where) -> Iterator[None]:
    """Run searches with the patterns of an owner, and raise if they take too long: some never end."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread gets signals
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise _TooLongError

    # a search looks for signals while it runs
    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, _SECONDS)
    try:
        yield
    except _TooLongError:
        message = tr("the patterns of '{owner}' take longer than {seconds} seconds", owner=owner, seconds=_SECONDS)
        hint = tr("leave out repetitions inside of repetitions, such as (a+)+; or give a shorter text")
        raise MatrixError.of(message, where, hint) from None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
