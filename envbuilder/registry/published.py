"""Looks up an image in a registry: its digest and its configuration, before any layer is downloaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envbuilder import platforms
from envbuilder.errors import NetworkError, NoMatchError
from envbuilder.language import tr
from envbuilder.registry.client import Manifest, Registry
from envbuilder.registry.reference import Reference


@dataclass(frozen=True)
class Published:
    """One image for one architecture. `digest` is that of its manifest, `id` that of its configuration."""

    reference: Reference
    digest: str
    id: str
    arch: str
    labels: Mapping[str, str]
    # of the compressed layers
    size: int
    created: str
    manifest: Manifest

    @property
    def layers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.manifest.document["layers"]
        return found


def look_up(registry: Registry, reference: Reference, arch: str) -> Published:
    """Return the image that a name has on an architecture."""
    manifest = registry.manifest(reference.repository, reference.wanted)
    if manifest.is_index:
        manifest = registry.manifest(reference.repository, _for_arch(manifest, reference, arch))
    try:
        document = manifest.document
        config = json.loads(registry.blob(reference.repository, str(document["config"]["digest"])))
        labels = (config.get("config") or {}).get("Labels") or {}
        return Published(
            reference=reference._replace(digest=manifest.digest),
            digest=manifest.digest,
            id=str(document["config"]["digest"]),
            arch=platforms.arch(str(config.get("architecture") or "unknown")),
            labels={str(key): str(value) for key, value in labels.items()},
            size=sum(int(layer["size"]) for layer in document["layers"]),
            created=str(config.get("created") or ""),
            manifest=manifest,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NetworkError(
            tr("{reference} is not an image: its manifest or configuration has other parts", reference=reference)
        ) from error


def find(registry: Registry, reference: Reference, arch: str) -> Published | None:
    """Return the image that a name has on an architecture, or None."""
    try:
        return look_up(registry, reference, arch)
    except NoMatchError:
        return None


def _for_arch(index: Manifest, reference: Reference, arch: str) -> str:
    listed = index.document.get("manifests")
    found = {
        platforms.arch(str((item.get("platform") or {}).get("architecture") or "unknown")): item.get("digest")
        for item in (listed if isinstance(listed, list) else ())
        if isinstance(item, dict)
    }
    if arch not in found:
        have = ", ".join(sorted(filter(None, found))) or "none"
        raise NoMatchError(
            tr("{reference} has no image for {arch}; it has: {have}", reference=reference, arch=arch, have=have)
        )
    return str(found[arch])
