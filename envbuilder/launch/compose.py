"""A container as a service of a compose file."""

from __future__ import annotations

from typing import Any

from envbuilder.launch.needs import Launch, Mount


def compose(launch: Launch) -> str:
    import yaml

    needs = launch.needs
    mounts = (*needs.mounts, *launch.volumes)
    service = {
        "image": launch.image,
        "container_name": launch.name,
        "command": list(launch.command),
        "init": True,
        "stdin_open": launch.stdin,
        "tty": launch.terminal,
        "network_mode": needs.network,
        "shm_size": needs.shm_size,
        "runtime": needs.runtime,
        "devices": [f"{path}:{path}" for path in needs.devices],
        "volumes": [_volume(mount) for mount in mounts],
        "environment": dict(needs.variables),
    }
    document = {
        "services": {launch.title: {key: value for key, value in service.items() if value}},
        "volumes": {mount.source: {"name": mount.source} for mount in mounts if mount.is_named},
    }
    literal = _literal({key: value for key, value in document.items() if value})
    return str(yaml.safe_dump(literal, sort_keys=False, allow_unicode=True))


def _volume(mount: Mount) -> dict[str, Any]:
    kind = "volume" if mount.is_named else "bind"
    found: dict[str, Any] = {"type": kind, "source": mount.source, "target": mount.target}
    if mount.read_only:
        found["read_only"] = True
    if kind == "bind":
        # a path that is not there is a mistake, not a folder to be made
        found["bind"] = {"create_host_path": False}
    return found


def _literal(value: Any) -> Any:
    """A compose file would fill in what looks like a variable; everything here is meant as it is written."""
    if isinstance(value, dict):
        return {key: _literal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_literal(item) for item in value]
    return value.replace("$", "$$") if isinstance(value, str) else value
