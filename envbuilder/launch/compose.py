"""Writes a container as a service of a compose file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envbuilder.launch.container import Launch, Mount


def compose(launch: Launch) -> str:
    return document({launch.title: service(launch)}, launch.volumes)


def service(launch: Launch) -> dict[str, Any]:
    needs = launch.needs
    found = {
        "image": launch.image,
        "container_name": launch.name,
        "command": list(launch.command),
        "init": True,
        "stdin_open": launch.stdin,
        "tty": launch.terminal,
        "network_mode": needs.network,
        "shm_size": needs.shm_size,
        "runtime": needs.runtime,
        "deploy": _gpus(*needs.gpus) if needs.gpus else None,
        "user": launch.user,
        "devices": [f"{path}:{path}" for path in needs.devices],
        "volumes": [_volume(mount) for mount in (*needs.mounts, *launch.volumes)],
        "environment": dict(needs.variables),
    }
    return {key: value for key, value in found.items() if value}


def _gpus(vendor: str, wanted: str) -> dict[str, Any]:
    """Return the reservation of GPUs, of all, a number, or those that are named."""
    _, is_named, numbers = wanted.partition("device=")
    which = {"device_ids": numbers.split(",")} if is_named else {"count": wanted if wanted == "all" else int(wanted)}
    return {"resources": {"reservations": {"devices": [{"driver": vendor, **which, "capabilities": ["gpu"]}]}}}


def document(services: Mapping[str, Any], volumes: Sequence[Mount], **more: Any) -> str:
    import yaml

    named = {mount.source: {"name": mount.source} for mount in volumes if mount.is_named}
    found = {"services": dict(services), **more, "volumes": named}
    literal = _literal({key: value for key, value in found.items() if value})
    return str(yaml.safe_dump(literal, sort_keys=False, allow_unicode=True))


def _volume(mount: Mount) -> dict[str, Any]:
    kind = "volume" if mount.is_named else "bind"
    # no create_host_path, which docker-compose 1.29 refuses
    found = {"type": kind, "source": mount.source, "target": mount.target}
    return {**found, **({"read_only": True} if mount.read_only else {})}


def _literal(value: Any) -> Any:
    """Return the value with every `$` escaped, so that compose substitutes no variable."""
    if isinstance(value, dict):
        return {key: _literal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_literal(item) for item in value]
    return value.replace("$", "$$") if isinstance(value, str) else value
