"""A container as a pod of a Kubernetes cluster, whose device plugin gives it NPUs, their nodes and the driver."""

from __future__ import annotations

import re
from typing import Any

from envbuilder.errors import UsageError
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
        raise UsageError(f"a pod has the network of its cluster or that of its host, not '{needs.network}'")
    container = {
        "name": name_of(launch.title),
        "image": launch.image,
        # the entry point of the image stays, which sets up the vendor's paths
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
    """As a label of the domain name system has to be."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:longest].rstrip("-")


def _variable(name: str, value: str | None) -> dict[str, str]:
    if value is None:
        raise UsageError(f"a pod cannot take {name} from here", hint=f"--env {name}=VALUE, or a secret of the cluster")
    return {"name": name, "value": _literal(value)}


def _literal(text: str) -> str:
    """$(NAME) would be filled in."""
    return text.replace("$", "$$")


def _mounts(launch: Launch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if launch.needs.shm_size:
        found.append({"name": _SHARED_MEMORY, "mountPath": "/dev/shm"})  # noqa: S108
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
