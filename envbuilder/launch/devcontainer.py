"""Writes a container as a devcontainer.json, with which editors open a project in it."""

from __future__ import annotations

import json
from typing import Any

from envbuilder.launch.container import Launch, Mount

EDITOR_FILE = ".devcontainer/devcontainer.json"


def devcontainer(launch: Launch) -> str:
    needs = launch.needs
    values = (
        ("--network", needs.network),
        ("--shm-size", needs.shm_size),
        ("--runtime", needs.runtime),
        ("--name", launch.name),
    )
    options = [word for option, value in values if value is not None for word in (option, value)]
    options += [word for path in needs.devices for word in ("--device", path)]
    set_, passed = {}, {}
    for name, value in needs.variables.items():
        if value is None:
            passed[name] = f"${{localEnv:{name}}}"
        else:
            set_[name] = value
    found: dict[str, Any] = {
        "name": launch.title,
        "image": launch.image,
        "init": True,
        "runArgs": options,
        "mounts": [_mount(item) for item in (*needs.mounts, *launch.volumes)],
        "containerEnv": {**set_, **passed},
        # every bash of the image sets up the vendor's toolkit
        "customizations": {"vscode": {"settings": {"terminal.integrated.defaultProfile.linux": "bash"}}},
    }
    return json.dumps({key: value for key, value in found.items() if value}, indent=2, ensure_ascii=False) + "\n"


def _mount(mount: Mount) -> str:
    kind = "volume" if mount.is_named else "bind"
    return f"type={kind},source={mount.source},target={mount.target}{',readonly' if mount.read_only else ''}"
