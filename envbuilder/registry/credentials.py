"""Reads docker's passwords for registries from its config file and its credential helpers.

docker.auth reads them too, but it waits for a helper without a limit, and finds nothing if one entry is damaged.
"""

from __future__ import annotations

import base64
import json
import os
from typing import Any, NamedTuple

from envbuilder import paths
from envbuilder.process import ProgramError, run

# the names under which docker stores the password of Docker Hub
_ALIASES = {"registry-1.docker.io": ("https://index.docker.io/v1/", "docker.io", "index.docker.io")}
# the user name that a helper returns with a token
_TOKEN_USER = "<token>"  # noqa: S105
_SECONDS = 30


class Credentials(NamedTuple):
    """The login of a user at a registry."""

    user: str
    password: str
    # instead of a password, a token that is exchanged for others
    refresh_token: str | None = None


def credentials_of(host: str) -> Credentials | None:
    """Return the user's credentials for a registry, or None."""
    config = _config()
    names = (host, f"https://{host}", *_ALIASES.get(host, ()))
    for name in names:
        helper = _part(config, "credHelpers").get(name) or config.get("credsStore")
        found = (_ask(helper, name) if helper else None) or _filed(_part(config, "auths").get(name))
        if found is not None:
            return found
    return None


def _config() -> dict[str, Any]:
    folder = paths.expanded(os.environ.get("DOCKER_CONFIG") or "~/.docker")
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _part(config: dict[str, Any], key: str) -> dict[str, Any]:
    found = config.get(key)
    return found if isinstance(found, dict) else {}


def _ask(helper: str, name: str) -> Credentials | None:
    try:
        found = json.loads(run([f"docker-credential-{helper}", "get"], stdin=name, seconds=_SECONDS).text)
        user, secret = found["Username"], found["Secret"]
    except (ProgramError, ValueError, KeyError, TypeError):
        return None
    return Credentials("", "", secret) if user == _TOKEN_USER else Credentials(user, secret)


def _filed(entry: Any) -> Credentials | None:
    if not isinstance(entry, dict):
        return None
    token = entry.get("identitytoken")
    try:
        user, _, password = base64.b64decode(entry.get("auth") or "", validate=True).decode().partition(":")
    except (TypeError, ValueError):
        return None
    user, password = user or entry.get("username", ""), password or entry.get("password", "")
    return Credentials(user, password, token) if user or token else None
