"""Remembers the newest signed image of each name that this machine has seen, so that an older one is noticed.

An older image has a good signature, too. The date is by the clock of who signed; nobody else has confirmed it.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

from envbuilder import paths
from envbuilder.files import turn, write_text
from envbuilder.language import tr


class Seen(NamedTuple):
    """An image that was signed, by its digest, and when, in seconds since 1970."""

    digest: str
    date: int


def rollback(name: str, found: Seen) -> str | None:
    """Return a line about an image that is older than the newest seen under its name; remember one that is newer."""
    with turn(f"newest {name}", lambda: None):
        note = paths.state_folder() / "signed" / hashlib.sha256(name.encode()).hexdigest()[:32]
        newest = _read(note)
        if newest is None or newest.date < found.date:
            write_text(note, json.dumps(found))
    if newest is None or newest.date <= found.date or newest.digest == found.digest:
        return None
    return tr(
        "rollback: this {name} was signed on {date}, and {digest}, which this machine has seen, on {newest}",
        name=name,
        date=_shown(found.date),
        digest=newest.digest,
        newest=_shown(newest.date),
    )


def _read(note: Path) -> Seen | None:
    try:
        digest, date = json.loads(note.read_text(encoding="utf-8"))
        return Seen(str(digest), int(date))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def _shown(date: int) -> str:
    try:
        return datetime.fromtimestamp(date, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return str(date)
