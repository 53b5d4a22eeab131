"""Looks up an image in a registry: its digest and its configuration, before any layer is downloaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from envbuilder import platforms
from envbuilder.errors import NoMatchError
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
    # of the layers as they are downloaded
    size: int
    created: str
    manifest: Manifest

    @property
    def layers(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.manifest.document["layers"]
        return found


def look_up(registry: Registry, reference: Reference, arch: str) -> Published:
    """Return the image that a name stands for on an architecture."""
    manifest = registry.manifest(reference.repository, reference.wanted)
    if manifest.is_index:
        manifest = registry.manifest(reference.repository, _for_arch(manifest, reference, arch))
    document = manifest.document
    config = json.loads(registry.blob(reference.repository, document["config"]["digest"]))
    return Published(
        reference=reference._replace(digest=manifest.digest),
        digest=manifest.digest,
        id=document["config"]["digest"],
        arch=platforms.arch(config.get("architecture") or "unknown"),
        labels=config.get("config", {}).get("Labels") or {},
        size=sum(layer["size"] for layer in document["layers"]),
        created=config.get("created", ""),
        manifest=manifest,
    )


def _for_arch(index: Manifest, reference: Reference, arch: str) -> str:
    found = {
        platforms.arch(item.get("platform", {}).get("architecture") or "unknown"): item["digest"]
        for item in index.document["manifests"]
    }
    if arch not in found:
        have = ", ".join(sorted(filter(None, found))) or "none"
        raise NoMatchError(f"{reference} has no image for {arch}; it has: {have}")
    return str(found[arch])
