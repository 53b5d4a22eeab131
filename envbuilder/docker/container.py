"""Runs a container for commands to be executed in, and removes it afterwards."""

from __future__ import annotations

import io
import tarfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from envbuilder.docker.failures import failure_of, reason_of
from envbuilder.language import tr

# Ray keeps its objects in shared memory
_SHARED_MEMORY = "1g"
# how long an engine may take for a request whose answer is not waited for
_CREATION_SECONDS = 5
# after this time the container ends, even if envbuilder was killed before it could remove it
_SECONDS = 12 * 60 * 60


class Container:
    """A running container that commands are executed in."""

    def __init__(self, container: Any) -> None:
        self._container = container

    @property
    def id(self) -> str:
        return str(self._container.id)

    def put(self, source: Path, folder: str) -> None:
        """Copy a file or folder into a folder of the container."""
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as archive:
            archive.add(source, arcname=source.name, filter=_plain)
        self._container.put_archive(folder, content.getvalue())

    def stop(self) -> None:
        self._container.kill()


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Return the entry, owned by root and readable for all, or None for Python's bytecode."""
    entry.uid = entry.gid = 0
    entry.mode |= 0o444
    return None if "__pycache__" in entry.name else entry


@contextmanager
def started(
    client: Any, image: str, platform: str | None, devices: Sequence[str], mounts: Sequence[str], empty: Sequence[str],
    gpus: int = 0,
) -> Iterator[Container]:  # fmt: skip
    """Run a container without a network, with these devices of the host, a number of GPUs and, read-only, these paths.

    The folders `empty` hide those of the image; their content is deleted with the container.
    """
    with _running(
        client,
        image,
        platform,
        init=True,
        shm_size=_SHARED_MEMORY,
        devices=[f"{path}:{path}" for path in devices],
        # the engine asks the toolkit of their vendor for them
        device_requests=[{"Count": gpus, "Capabilities": [["gpu"]]}] if gpus else None,
        volumes={path: {"bind": path, "mode": "ro"} for path in mounts},
        tmpfs=dict.fromkeys(empty, "exec"),
    ) as container:
        yield container


@contextmanager
def beside(client: Any, image: str, other: str, platform: str | None) -> Iterator[Container]:
    """Run a container of the other image, which sees the files of the first below /proc/1/root.

    Nothing can be changed in the container of the first, not even by its own programs.
    """
    with (
        _running(client, image, platform, read_only=True, cap_drop=["ALL"]) as shown,
        _running(client, other, platform, pid_mode=f"container:{shown.id}", cap_add=["SYS_PTRACE"]) as container,
    ):
        yield container


@contextmanager
def _running(client: Any, image: str, platform: str | None, **settings: Any) -> Iterator[Container]:
    import docker

    # known before the container is, so that one whose creation is interrupted can be removed
    name = f"envbuilder-{uuid.uuid4().hex[:16]}"
    try:
        container = client.containers.run(
            image,
            [str(_SECONDS)],
            name=name,
            # the entrypoint of the image may start something else, or end at once
            entrypoint=["sleep"],
            platform=platform,
            detach=True,
            auto_remove=True,
            network_mode="none",
            # without a network it needs no proxy, whose address may contain a password
            use_config_proxy=False,
            **settings,
        )
    except docker.errors.APIError as error:
        reason = reason_of(error)
        message = tr("no container of {image} can be started: {reason}", image=image, reason=reason)
        raise failure_of(message, [reason]) from error
    except BaseException:
        _remove_interrupted(client, name)
        raise
    try:
        yield Container(container)
    finally:
        # the engine may have removed it, or be removing it
        with suppress(docker.errors.APIError):
            container.remove(force=True)


def _remove_interrupted(client: Any, name: str) -> None:
    """Remove a container whose creation was interrupted: the engine may still be at it."""
    import docker

    end = time.monotonic() + _CREATION_SECONDS
    while time.monotonic() < end:
        with suppress(docker.errors.APIError):
            client.containers.get(name).remove(force=True)
            return
        time.sleep(0.1)
