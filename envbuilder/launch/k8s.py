"""Writes a container as a Kubernetes pod; the device plugin of the cluster adds NPUs, device nodes and driver."""

from __future__ import annotations

import re
from typing import Any

from envbuilder.errors import UsageError
from envbuilder.language import tr
from envbuilder.launch.container import Launch, Mount
from envbuilder.platforms import PLATFORMS

_HOST = "host"
_SHARED_MEMORY = "shm"
_UNITS = {"": "", "b": "", "k": "Ki", "m": "Mi", "g": "Gi"}


def manifest(launch: Launch) -> str:
    import yaml

    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name_of(launch.name or launch.title)},
        "spec": pod_spec(launch),
    }
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))


def pod_spec(launch: Launch) -> dict[str, Any]:
    needs = launch.needs
    if needs.network not in {None, _HOST}:
        raise UsageError(
            tr("a pod has the network of its cluster or that of its host, not '{network}'", network=needs.network)
        )
    container = {
        "name": name_of(launch.title),
        "image": launch.image,
        # not `command`: the image's entry point sets up the vendor's paths
        "args": [_literal(word) for word in launch.command],
        "stdin": launch.stdin,
        "tty": launch.terminal,
        "env": [_variable(name, value) for name, value in needs.variables.items()],
        "resources": {"limits": {needs.resource: needs.count}} if needs.resource and needs.count else {},
        "volumeMounts": _mounts(launch),
    }
    spec = {
        "restartPolicy": "Never",
        "nodeSelector": {"kubernetes.io/arch": PLATFORMS[launch.arch].partition("/")[2]},
        "hostNetwork": needs.network == _HOST,
        "dnsPolicy": "ClusterFirstWithHostNet" if needs.network == _HOST else None,
        "containers": [_filled(container)],
        "volumes": _volumes(launch),
    }
    return _filled(spec)


def _filled(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value}


def name_of(text: str, longest: int = 63) -> str:
    """Return the text as a DNS label, which names of Kubernetes have to be."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:longest].rstrip("-")


def _variable(name: str, value: str | None) -> dict[str, str]:
    if value is None:
        hint = tr("--env {name}=VALUE, or a secret of the cluster", name=name)
        raise UsageError(tr("a pod cannot take the value of {name} from this shell", name=name), hint=hint)
    return {"name": name, "value": _literal(value)}


def _literal(text: str) -> str:
    """Return the text with `$` escaped, so that Kubernetes expands no $(NAME)."""
    return text.replace("$", "$$")


def _mounts(launch: Launch) -> list[dict[str, Any]]:
    shared_memory = {"name": _SHARED_MEMORY, "mountPath": "/dev/shm"}  # noqa: S108
    found: list[dict[str, Any]] = [shared_memory] if launch.needs.shm_size else []
    for number, mount in enumerate(launch.volumes):
        read_only = {"readOnly": True} if mount.read_only else {}
        found.append({"name": f"volume-{number}", "mountPath": mount.target, **read_only})
    return found


def _volumes(launch: Launch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if size := launch.needs.shm_size:
        limit = size.rstrip("bkmg") + _UNITS[size.lstrip("0123456789")]
        found.append({"name": _SHARED_MEMORY, "emptyDir": {"medium": "Memory", "sizeLimit": limit}})
    return found + [{"name": f"volume-{number}", **_source(mount)} for number, mount in enumerate(launch.volumes)]


def _source(mount: Mount) -> dict[str, Any]:
    if mount.is_named:
        return {"persistentVolumeClaim": {"claimName": mount.source}}
    return {"hostPath": {"path": mount.source}}
