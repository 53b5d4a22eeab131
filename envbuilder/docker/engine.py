"""Controls the docker engine through its SDK: images, containers and pulls."""

from __future__ import annotations

import json
import os
import tarfile
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from http import HTTPStatus
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple

from envbuilder import paths, platforms
from envbuilder.docker.client import build_command
from envbuilder.docker.container import Container, beside, started
from envbuilder.docker.emulation import emulator
from envbuilder.docker.failures import failure_of, hint_of, reason_of
from envbuilder.errors import EnvbuilderError, HostError, NetworkError
from envbuilder.language import tr
from envbuilder.platforms import PLATFORMS
from envbuilder.process import run
from envbuilder.progress import Progress, bar

# the first version of docker that can unpack layers of zstd
_READS_ZSTD = 23
_NOT_ALLOWED = (
    "join the group docker (usermod --append --groups docker USER) and log in again, or start an engine of your own: "
    "dockerd-rootless-setuptool.sh install, or systemctl --user start podman.socket, which cannot build"
)


class Image(NamedTuple):
    """An image in the engine's store under one of its names, or without a name."""

    id: str
    name: str | None
    size: int
    arch: str
    labels: Mapping[str, str]
    created: str


class UnsavableError(EnvbuilderError):
    """An engine cannot save an image: podman, for example, none with layers of zstd."""


class ImageConfiguration(NamedTuple):
    """The settings of an image, the digests of its layers, and the command and the size of each step of its history."""

    arch: str
    settings: Mapping[str, Any]
    layers: tuple[str, ...]
    history: tuple[tuple[str, int], ...]


class Docker:
    """A connection to the engine that DOCKER_HOST, or the default socket, names."""

    def __init__(self) -> None:
        # here and not at the top, because it is slow to import
        import docker

        self._errors: Any = docker.errors
        try:
            self._client: Any = docker.from_env(timeout=120)
            self._client.ping()
        except docker.errors.DockerException as error:
            hint = (
                tr("start one (systemctl start docker), or set DOCKER_HOST; tools/engine.sh starts a private one")
                if paths.is_checkout()
                else tr("start one (systemctl start docker), or set DOCKER_HOST")
            )
            if "Permission denied" in str(error):
                raise HostError(tr("this user may not use the docker engine"), hint=tr(_NOT_ALLOWED)) from error
            raise HostError(tr("no docker engine answers"), hint=hint) from error

    @property
    def address(self) -> str:
        return str(self._client.api.base_url) + os.environ.get("DOCKER_HOST", "")

    @cached_property
    def _info(self) -> dict[str, Any]:
        return dict(self._client.info())

    @property
    def arch(self) -> str:
        return platforms.arch(str(self._info.get("Architecture", "")))

    def runs(self, arch: str) -> bool:
        """Return whether the engine's machine runs programs of an architecture: its own, or one that is emulated."""
        # the emulators of another machine are unknown
        return arch == self.arch or (self.free_bytes() is not None and emulator(arch) is not None)

    def platform(self, arch: str) -> str | None:
        """Return the platform of an architecture for commands, or None if it is the engine's own."""
        return None if arch == self.arch else PLATFORMS[arch]

    @cached_property
    def _podman(self) -> str | None:
        """Return the name of an engine that has docker's API but is Podman."""
        parts = [str(part.get("Name", "")) for part in self._client.version().get("Components", [])]
        return next((name for name in parts if name.startswith("Podman")), None)

    @property
    def reads_zstd(self) -> bool:
        """Return whether the engine can unpack layers that zstd has compressed."""
        major = str(self._info.get("ServerVersion", "")).partition(".")[0]
        return self._podman is not None or (major.isdecimal() and int(major) >= _READS_ZSTD)

    def require_buildkit(self) -> None:
        """Refuse an engine that has docker's API but not BuildKit."""
        if self._podman:
            raise HostError(
                tr("builds need BuildKit, which {engine} does not have", engine=self._podman),
                hint=tr("set DOCKER_HOST to the socket of a docker engine"),
            )

    def image(self, name: str) -> Image | None:
        try:
            found = self._client.images.get(name)
        except self._errors.ImageNotFound:
            return None
        return _image(found, name)

    def images(self, label: str) -> list[Image]:
        """Return the images that have a label, once for every name."""
        found = self._client.images.list(filters={"label": label})
        return [_image(item, name) for item in found for name in item.tags or [None]]

    def container(
        self, name: str, platform: str | None = None, devices: Sequence[str] = (), mounts: Sequence[str] = (),
        empty: Sequence[str] = (), gpus: int = 0,
    ) -> AbstractContextManager[Container]:  # fmt: skip
        return started(self._client, name, platform, devices, mounts, empty, gpus)

    def beside(self, image: str, other: str, platform: str | None) -> AbstractContextManager[Container]:
        """Run a container of the other image beside one of the first, whose files it sees below /proc/1/root."""
        return beside(self._client, image, other, platform)

    def configuration(self, name: str) -> ImageConfiguration:
        """Return what an image says about itself; the history begins with its newest step."""
        parts = self._client.images.get(name).attrs
        history = [(str(item["CreatedBy"]), int(item["Size"])) for item in self._client.api.history(name)]
        settings = parts.get("Config") or {}
        return ImageConfiguration(parts["Architecture"], settings, tuple(parts["RootFS"]["Layers"]), tuple(history))

    def load_unnamed(self, archive: IO[bytes]) -> str:
        """Load an archive with one image that has no name, and return its id."""
        try:
            (found,) = self._client.images.load(archive)
        except (self._errors.APIError, self._errors.ImageLoadError, self._errors.ImageNotFound, ValueError) as error:
            raise EnvbuilderError(
                tr("the engine cannot load the layers of an image: {reason}", reason=error)
            ) from error
        return str(found.id)

    def tag(self, name: str, as_: str) -> None:
        repository, _, tag = as_.rpartition(":")
        self._client.images.get(name).tag(repository, tag=tag)

    def untag(self, name: str) -> None:
        """Remove a name. The image stays if it has another name, and the name stays if a container needs it."""
        try:
            self._client.images.remove(name, noprune=True)
        except self._errors.ImageNotFound:
            return
        except self._errors.APIError as error:
            if error.status_code != HTTPStatus.CONFLICT:
                raise

    def remove(self, name: str) -> None:
        """Remove an image, and the layers that only it uses."""
        try:
            self._client.images.remove(name)
        except self._errors.APIError as error:
            raise EnvbuilderError(
                tr("{image} cannot be removed: {reason}", image=name, reason=reason_of(error))
            ) from error

    def pull(self, name: str, platform: str | None) -> str | None:
        """Pull an image from its registry. Return the reason if that fails, or else None."""
        import requests

        try:
            self._client.images.pull(name, platform=platform)
        except self._errors.APIError as error:
            return reason_of(error).strip().splitlines()[-1]
        except requests.RequestException as error:
            return str(error)
        return None

    def pull_layers(self, repository: str, digest: str, progress: Progress) -> None:
        """Pull an image by its digest, and show the progress of every layer that is downloaded."""
        import requests

        moving: set[str] = set()
        try:
            for event in self._client.api.pull(repository, tag=digest, stream=True, decode=True):
                if "error" in event:
                    raise _not_pulled(f"{repository}@{digest}", str(event["error"]))
                _show_layer(event, moving, progress)
        except self._errors.APIError as error:
            raise _not_pulled(f"{repository}@{digest}", reason_of(error)) from error
        except requests.RequestException as error:
            raise NetworkError(tr("the engine does not answer: {reason}", reason=error)) from error

    def label(self, name: str, labels: Mapping[str, str], tag: str, platform: str | None = None) -> None:
        """Add labels to an image, under another name. They add no layer."""
        lines = [f"FROM {name}", *(f"LABEL {key}={json.dumps(value)}" for key, value in labels.items())]
        variables = {**os.environ, "DOCKER_BUILDKIT": "1", "BUILDX_BUILDER": "default"}
        command = [*build_command(), "--quiet", "--tag", tag, *(["--platform", platform] if platform else []), "-"]
        made = run(command, stdin="\n".join(lines), variables=variables)
        if not made.ok:
            raise EnvbuilderError(
                tr("{image} cannot be labelled: {reason}", image=name, reason=made.error_text.strip())
            )

    def read(self, name: str, path: str) -> bytes:
        """Return the content of one file of an image."""
        container = self._client.containers.create(name, use_config_proxy=False)
        try:
            parts, _ = container.get_archive(path)
            with tarfile.open(fileobj=BytesIO(b"".join(parts))) as tar:
                file = tar.extractfile(Path(path).name)
                return file.read() if file else b""
        finally:
            container.remove()

    def load(self, archive: Path, name: str, ids: Collection[str] = ()) -> None:
        """Load the image of this name from an archive, which must not contain images of other names.

        An image that has none of the ids, if there are any, is removed again.
        """
        if others := _names_in(archive) - {name}:
            raise EnvbuilderError(
                tr(
                    "{archive} would replace other images than {name}: {others}",
                    archive=archive,
                    name=name,
                    others=", ".join(sorted(others)),
                )
            )
        before = self.image(name)
        try:
            with archive.open("rb") as file:
                self._client.images.load(file)
        except (self._errors.APIError, self._errors.ImageLoadError) as error:
            reason = reason_of(error)
            message = tr("{archive} cannot be loaded: {reason}", archive=archive, reason=reason)
            raise failure_of(message, [reason]) from error
        made = self.image(name)
        if made is None:
            raise EnvbuilderError(
                tr("{archive} was loaded, but it does not contain {name}", archive=archive, name=name)
            )
        if ids and made.id not in ids:
            self._take_back(made, name, before)
            raise EnvbuilderError(
                tr("{archive} was loaded as {found}, and not as {wanted}", archive=archive, found=made.id, wanted=name),
                hint=tr("the image was removed again; the file was changed while it was read"),
            )

    def _take_back(self, made: Image, name: str, before: Image | None) -> None:
        """Give a name back to the image that had it before another one was loaded."""
        if before is None or before.id != made.id:
            self.remove(name)
        if before is not None:
            self.tag(before.id, name)

    def save(self, name: str) -> IO[bytes]:
        """Return an image as the engine saves it, in a temporary file that is deleted when it is closed."""
        try:
            found = self._client.images.get(name)
        except self._errors.ImageNotFound as error:
            raise EnvbuilderError(tr("there is no image {image}", image=name), hint=f"docker pull {name}") from error
        file = tempfile.TemporaryFile()  # noqa: SIM115  the caller reads it
        # an id, and a name that podman completes, are no names of the image
        try:
            for part in found.save(named=name if name in found.tags else False):
                file.write(part)
        except self._errors.APIError as error:
            file.close()
            raise UnsavableError(
                tr("the engine cannot save {image}: {reason}", image=name, reason=reason_of(error))
            ) from error
        file.seek(0)
        return file

    def free_bytes(self) -> int | None:
        """Return the free space at the engine's root, or None if that is not a folder of this machine."""
        try:
            status = os.statvfs(self._info.get("DockerRootDir", ""))
        except OSError:
            return None
        return status.f_bavail * status.f_frsize


def _names_in(archive: Path) -> set[str]:
    """Return the names that an engine may give to images of an archive; it reads one of these two files."""
    try:
        with tarfile.open(archive, "r:") as tar:
            texts = {
                entry.name: tar.extractfile(entry) for entry in tar if entry.name in {"manifest.json", "index.json"}
            }
            found = {name: json.load(text) for name, text in texts.items() if text is not None}
            names = {name for item in found["manifest.json"] for name in item["RepoTags"] or ()}
            listed = found.get("index.json", {}).get("manifests", ())
            more = (item.get("annotations", {}).get("io.containerd.image.name") for item in listed)
            return names | {str(name) for name in more if name}
    except (tarfile.TarError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise EnvbuilderError(
            tr("{archive} cannot be loaded: it is not an archive of images: {reason}", archive=archive, reason=error)
        ) from error


def _image(found: Any, name: str | None) -> Image:
    parts = found.attrs
    arch = platforms.arch(str(parts.get("Architecture") or "unknown"))
    return Image(found.id, name, parts["Size"], arch, found.labels, parts.get("Created", ""))


def _show_layer(event: Mapping[str, Any], moving: set[str], progress: Progress) -> None:
    layer, status = str(event.get("id", "")), str(event.get("status", ""))
    detail = event.get("progressDetail") or {}
    if status == "Downloading" and layer not in moving:
        moving.add(layer)
        progress.expect([layer])
        progress.started(layer)
    if layer not in moving:
        return
    if status in {"Downloading", "Extracting"} and "total" in detail:
        shown = bar(detail["current"], detail["total"])
        progress.said(layer, shown if status == "Downloading" else tr("unpacked: {bar}", bar=shown))
    elif status == "Download complete":
        progress.said(layer, tr("downloaded, waiting to be unpacked"))
    elif status == "Pull complete":
        progress.ended(layer, "done")


def _not_pulled(image: str, reason: str) -> NetworkError:
    return NetworkError(tr("{image} cannot be pulled: {reason}", image=image, reason=reason), hint=hint_of([reason]))


def unreachable(name: str, trouble: str, instead: str | None = None) -> NetworkError:
    hint = tr("give --base-image an image that the engine has, or --registry-mirror a mirror of the registry")
    return NetworkError(
        tr("the base image {name} is not in the engine and cannot be pulled: {reason}", name=name, reason=trouble),
        hint=tr("; ").join(filter(None, (instead, hint))),
    )
