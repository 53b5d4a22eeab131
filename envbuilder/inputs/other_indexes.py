"""Checks whether other indexes can be reached; without an NPU, wheels of the package index can replace theirs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import requests

from envbuilder.environment import Environment
from envbuilder.http import Session, without_credentials
from envbuilder.language import tr

# for the connection, and for the answer: a build with a slower index would wait at every package
_SECONDS = (5, 10)


def within_reach(environment: Environment, ca_bundle: Path | None, say: Callable[[str], None]) -> Environment:
    """Return the environment, with wheels of the package index if another index does not answer and no NPU is used."""
    if not environment.has_fallback:
        return environment
    names = environment.labelled
    unreachable = [url for url in {environment.indexes[name] for name in names} if not _answers(url, ca_bundle)]
    if not unreachable:
        return environment
    builds = ", ".join(f"{name} {environment.pins[name].full}" for name in names)
    say(tr("{index} cannot be reached for {builds}", index=without_credentials(unreachable[0]), builds=builds))
    say(
        tr("using the builds of the package index, with the libraries of CUDA: several GB larger, and as fast on a CPU")
    )
    return environment.from_package_index()


def _answers(url: str, ca_bundle: Path | None) -> bool:
    try:
        with Session(ca_bundle, netrc=True, attempts=1) as session:
            return session.head(url, timeout=_SECONDS, allow_redirects=True).ok
    except requests.RequestException:
        return False
