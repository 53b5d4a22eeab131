"""Finds the engine that docker's own command would use, or else an engine that this user runs without root."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from envbuilder import paths

_DEFAULT = "/var/run/docker.sock"


def name_engine() -> None:
    """Set the variables that all commands and libraries read to the engine's address, unless it is the default one.

    The library of docker does not know contexts; neither it nor docker's command finds an engine without root.
    """
    address = os.environ.get("DOCKER_HOST") or _of_context() or _of_this_user()
    if address:
        os.environ["DOCKER_HOST"] = os.environ["CONTAINER_HOST"] = address


def program() -> str:
    """Return the command that starts and enters containers: that of the engine, or the only one that is installed."""
    import shutil

    commands = ["docker", "podman"]
    if os.environ.get("DOCKER_HOST", "").endswith("podman.sock"):
        commands.reverse()
    return next((command for command in commands if shutil.which(command)), "docker")


def is_without_root() -> bool:
    """Return whether the engine belongs to this user, so that it has no more rights than the user."""
    socket = os.environ.get("DOCKER_HOST", "").removeprefix("unix://")
    try:
        return socket.startswith("/") and Path(socket).stat().st_uid != 0
    except OSError:
        return False


def _of_context() -> str | None:
    """Return the address in docker's current context, which `docker context use` and the setup without root set."""
    try:
        folder = paths.expanded(os.environ.get("DOCKER_CONFIG") or "~/.docker")
        name = os.environ.get("DOCKER_CONTEXT") or _read(folder / "config.json", "currentContext")
        if not name or name == "default":
            return None
        from hashlib import sha256

        described = folder / "contexts/meta" / sha256(str(name).encode()).hexdigest() / "meta.json"
        address = _read(described, "Endpoints")["docker"]["Host"]
        # others than these cannot be in a variable
        return address if isinstance(address, str) and "\0" not in address and address.encode() else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _read(file: Path, key: str) -> Any:
    text = file.read_text(encoding="utf-8")
    if key not in text:
        return None
    # slow to import, and few files have a context
    import json

    return json.loads(text).get(key)


def _of_this_user() -> str | None:
    if os.access(_DEFAULT, os.R_OK | os.W_OK):
        return None
    return next((f"unix://{path}" for path in _own_sockets() if path.is_socket()), None)


def _own_sockets() -> Iterator[Path]:
    folder = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    yield folder / "docker.sock"
    yield folder / "podman/podman.sock"
