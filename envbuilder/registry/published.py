"""Looks up an image in a registry: its digest and its configuration, before any layer is downloaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envbuilder import platforms
from envbuilder.errors import NoMatchError
from envbuilder.language import tr
from envbuilder.registry.answers import answer_of
from envbuilder.registry.client import Manifest, Registry
from envbuilder.registry.reference import Reference

# configurations have a few hundred kB, and no program reads larger ones
_LARGEST_CONFIG = 2**23


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


def look_up(registry: Registry, reference: Reference, arch: str) -> Published:
    """Return the image that a name has on an architecture."""
    manifest = registry.manifest(reference.repository, reference.wanted)
    if manifest.is_index:
        manifest = registry.manifest(reference.repository, _for_arch(manifest, reference, arch))
    config = answer_of(registry.blob(reference.repository, manifest.config.digest, _LARGEST_CONFIG), str(reference))
    return Published(
        reference=reference._replace(digest=manifest.digest),
        digest=manifest.digest,
        id=manifest.config.digest,
        arch=platforms.arch(config.text("architecture", "") or "unknown"),
        labels=config.part("config").pairs("Labels"),
        size=sum(layer.size for layer in manifest.layers),
        created=config.text("created", ""),
        manifest=manifest,
    )


def find(registry: Registry, reference: Reference, arch: str) -> Published | None:
    """Return the image that a name has on an architecture, or None."""
    try:
        return look_up(registry, reference, arch)
    except NoMatchError:
        return None


def _for_arch(index: Manifest, reference: Reference, arch: str) -> str:
    # other documents, such as attestations, have no architecture, or an unknown one
    found = {platforms.arch(item.architecture): item.digest for item in index.listed if item.architecture}
    if arch not in found:
        have = ", ".join(sorted(found)) or "none"
        raise NoMatchError(
            tr("{reference} has no image for {arch}; it has: {have}", reference=reference, arch=arch, have=have)
        )
    return found[arch]
