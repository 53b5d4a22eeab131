"""Compares a container with what the hardware needs: its device nodes, driver files, shared memory and network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from envbuilder.check import Finding, FindingSeverity
from envbuilder.environment import Catalog
from envbuilder.errors import NoMatchError
from envbuilder.language import tr
from envbuilder.machine.containers import CARD, inspected
from envbuilder.matrix.model import RunSpec

_MIB = 2**20
# docker's default is less, with which Ray and data loaders fail
_LEAST_SHM = 1024 * _MIB


def examine_container(catalog: Catalog, name: str) -> list[Finding]:
    """Return what a running container lacks."""
    container = inspected(name)
    if container is None:
        raise NoMatchError(tr("no container is named '{name}'", name=name), hint=tr("docker ps lists those that run"))
    run = catalog.host.run
    return list(_findings(container, run)) if run is not None else []


def _findings(container: Mapping[str, Any], run: RunSpec) -> Iterator[Finding]:
    host = container.get("HostConfig", {})
    given = [str(item.get("PathInContainer", "")) for item in host.get("Devices") or []]
    environment = [str(item) for item in container.get("Config", {}).get("Env") or []]
    by_runtime = any(run.runtime and item.startswith(f"{run.runtime.variable}=") for item in environment)
    mounted = [str(item.get("Destination", "")) for item in container.get("Mounts") or []]
    remedy = tr("`envbuilder run --print docker` shows what a container needs")
    if host.get("Privileged"):
        yield _of("ok", tr("it is privileged, and sees every device"))
    elif by_runtime:
        yield _of("ok", tr("the vendor's runtime gives it devices and driver files"))
    elif cards := [path for path in given if CARD.match(path)]:
        yield _of("ok", tr("it has {number} NPUs", number=len(cards)))
        missing = [path for path in run.device_nodes if path not in given]
        if missing:
            yield _of("error", tr("it has no {paths}", paths=", ".join(missing)), remedy)
    else:
        yield _of("error", tr("it was given no NPU"), remedy)
    if not by_runtime:
        absent = [path for path in run.mounts if not any(PurePosixPath(path).is_relative_to(at) for at in mounted)]
        if absent:
            message = tr("these files of the host are not mounted: {paths}", paths=", ".join(absent))
            yield _of("warning", message, remedy)
    size = int(host.get("ShmSize") or 0)
    if size < _LEAST_SHM and host.get("IpcMode") != "host":
        message = tr("its /dev/shm has {size} MB, and training needs {wanted}", size=size // _MIB, wanted=run.shm_size)
        yield _of("warning", message, tr("start it with --shm-size {size}", size=run.shm_size))


def _of(severity: FindingSeverity, message: str, hint: str | None = None) -> Finding:
    return Finding(severity, message, hint, code="container", group="container")
