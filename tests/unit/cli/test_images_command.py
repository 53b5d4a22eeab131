"""The ages in the table of images."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from envbuilder.cli.commands.images import _age


@pytest.mark.parametrize("form", ["{}.286033519Z", "{}Z", "{}.28+00:00", "{}"])
def test_a_time_as_docker_writes_it(form: str) -> None:
    then = datetime.now(timezone.utc) - timedelta(days=3, hours=1)
    assert _age(form.format(then.strftime("%Y-%m-%dT%H:%M:%S"))) == "3 d"


def test_an_offset_counts() -> None:
    behind = datetime.now(timezone.utc) - timedelta(hours=30)
    assert _age(behind.strftime("%Y-%m-%dT%H:%M:%S.5+00:00")) == "1 d"
    assert _age(behind.strftime("%Y-%m-%dT%H:%M:%S.5-10:00")) == "today"
    ahead = datetime.now(timezone.utc) + timedelta(minutes=3)
    assert _age(ahead.strftime("%Y-%m-%dT%H:%M:%SZ")) == "today"


@pytest.mark.parametrize("unknown", ["", "0001-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "yesterday"])
def test_an_unknown_time(unknown: str) -> None:
    assert _age(unknown) == "-"
