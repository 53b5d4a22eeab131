"""Keeps signatures and attestations where cosign does: under a tag of the image's digest, and as referrers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from envbuilder.registry.answers import Answer, Descriptor
from envbuilder.registry.attach import refer, stored
from envbuilder.registry.client import MANIFEST_TYPES, Manifest, Registry

# the annotation with the signature of a layer; an attestation has its signature inside
SIGNATURE = "dev.cosignproject.cosign/signature"
_CONFIG = "application/vnd.oci.image.config.v1+json"
# a registry may send any number
_MOST_LAYERS = 64


class Kind(NamedTuple):
    """What is kept: the end of its tag, the type of its layers, and its type as a referrer."""

    end: str
    layer: str
    artifact: str

    def tag(self, digest: str) -> str:
        return f"{digest.replace(':', '-')}.{self.end}"


def keep(
    registry: Registry, repository: str, subject: Manifest, kind: Kind, content: bytes, annotations: dict[str, str]
) -> None:
    """Add a document to those of an image."""
    layer = {**stored(registry, repository, kind.layer, content), "annotations": annotations}

    def with_layer(manifest: dict[str, Any] | None) -> bytes | None:
        layers = [part.content for part in Answer(manifest or {}, repository).parts("layers")]
        whole = {"schemaVersion": 2, "mediaType": MANIFEST_TYPES[0], **_parts(registry, repository, [*layers, layer])}
        return None if layer in layers else json.dumps(whole, sort_keys=True).encode()

    registry.amend(repository, kind.tag(subject.digest), MANIFEST_TYPES[0], with_layer)
    refer(registry, repository, subject, kind.artifact, _parts(registry, repository, [layer]))


def kept(registry: Registry, repository: str, digest: str, kind: Kind, longest: int) -> Iterator[tuple[bytes, str]]:
    """Yield the documents of an image with the signatures in their annotations, each once."""
    seen = set()
    for layer in _stored_layers(registry, repository, digest, kind):
        place = (layer.digest, layer.annotations.get(SIGNATURE, ""))
        if layer.media_type != kind.layer or place in seen:
            continue
        seen.add(place)
        if len(seen) > _MOST_LAYERS or not 0 < layer.size <= longest:
            return
        yield registry.blob(repository, layer.digest, layer.size), place[1]


def _stored_layers(registry: Registry, repository: str, digest: str, kind: Kind) -> Iterator[Descriptor]:
    tagged = registry.find(repository, kind.tag(digest))
    if tagged is not None:
        yield from tagged.layers
    listed = [item for item in registry.referrers(repository, digest) if item.artifact_type == kind.artifact]
    for item in listed[:_MOST_LAYERS]:
        yield from registry.manifest(repository, item.digest).layers


def _parts(registry: Registry, repository: str, layers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return layers for a manifest, with the configuration that programs expect beside them."""
    rootfs = {"type": "layers", "diff_ids": [Answer(layer, repository).digest("digest") for layer in layers]}
    config = json.dumps({"architecture": "", "os": "", "config": {}, "rootfs": rootfs}).encode()
    return {"config": stored(registry, repository, _CONFIG, config), "layers": layers}
