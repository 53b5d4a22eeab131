"""Reads docker's passwords for registries from its config file and its credential helpers.

docker.auth reads them too, but it waits for a helper without a limit, and finds nothing if one entry is damaged.
"""

from __future__ import annotations

import base64
import json
import os
import re
from typing import Any, NamedTuple

from envbuilder import paths
from envbuilder.process import ProgramError, run

# the names under which docker stores the password of Docker Hub
_ALIASES = {"registry-1.docker.io": ("https://index.docker.io/v1/", "docker.io", "index.docker.io")}
# the user name that a helper returns with a token
_TOKEN_USER = "<token>"  # noqa: S105
_SECONDS = 30
_HELPER = re.compile(r"[\w.-]+")


class Credentials(NamedTuple):
    """The login of a user at a registry."""

    user: str
    password: str
    # instead of a password, a token that is exchanged for others
    refresh_token: str | None = None

    @property
    def basic(self) -> str:
        """Return the header with the password. requests itself would not encode the letters of every language."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


def credentials_of(host: str) -> Credentials | None:
    """Return the user's credentials for a registry, or None."""
    config = _config()
    names = (host, f"https://{host}", *_ALIASES.get(host, ()))
    for name in names:
        helper = _text(_part(config, "credHelpers"), name) or _text(config, "credsStore")
        found = (_ask(helper, name) if _HELPER.fullmatch(helper) else None) or _filed(_part(config, "auths").get(name))
        if found is not None:
            return found
    return None


def _config() -> dict[str, Any]:
    folder = paths.expanded(os.environ.get("DOCKER_CONFIG") or "~/.docker")
    try:
        return _document((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _document(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _part(config: dict[str, Any], key: str) -> dict[str, Any]:
    found = config.get(key)
    return found if isinstance(found, dict) else {}


def _text(entry: dict[str, Any], key: str) -> str:
    """Return the text of an entry, which is empty if the entry is none, or cannot be sent."""
    found = entry.get(key)
    try:
        return found if isinstance(found, str) and found.encode() else ""
    except UnicodeEncodeError:
        return ""


def _ask(helper: str, name: str) -> Credentials | None:
    try:
        found = _document(run([f"docker-credential-{helper}", "get"], stdin=name, seconds=_SECONDS).text)
    except ProgramError:
        return None
    user, secret = _text(found, "Username"), _text(found, "Secret")
    if not user or not secret:
        return None
    return Credentials("", "", secret) if user == _TOKEN_USER else Credentials(user, secret)


def _filed(entry: Any) -> Credentials | None:
    if not isinstance(entry, dict):
        return None
    token = _text(entry, "identitytoken")
    try:
        user, _, password = base64.b64decode(_text(entry, "auth"), validate=True).decode().partition(":")
    except ValueError:
        return None
    user, password = user or _text(entry, "username"), password or _text(entry, "password")
    return Credentials(user, password, token or None) if user or token else None
