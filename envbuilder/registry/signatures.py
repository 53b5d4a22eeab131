"""Signs published images and verifies their signatures, in the form of cosign and containers/image (simple signing).

A signature is a small document that names the digest of an image and what the image is called, with the signature of
its bytes. It is stored twice: under the tag `sha256-<digest>.sig`, where all programs look, and as a referrer.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from envbuilder.errors import NoMatchError, ValidationError
from envbuilder.registry.attach import list_under_tag
from envbuilder.registry.client import MANIFEST_TYPES, Manifest, Registry
from envbuilder.registry.keys import PrivateKey, PublicKey
from envbuilder.registry.reference import Reference

_PAYLOAD = "application/vnd.dev.cosign.simplesigning.v1+json"
_ARTIFACT = "application/vnd.dev.cosign.artifact.sig.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_SIGNATURE = "dev.cosignproject.cosign/signature"
_KIND = "cosign container image signature"
# a registry may send anything, and nobody needs more
_MOST_SIGNATURES, _LONGEST_PAYLOAD = 64, 2**16


class Signed(NamedTuple):
    """A signature that a key accepts: the name that the image was signed under, and the key."""

    name: str
    key: PublicKey


def sign(registry: Registry, target: Reference, subject: Manifest, key: PrivateKey) -> None:
    """Sign an image under its name, unless this key has signed it under that name already."""
    if any(item.name == str(target) for item in accepted(registry, target.repository, subject.digest, (key.public,))):
        return
    payload = json.dumps(
        {
            "critical": {
                "identity": {"docker-reference": str(target)},
                "image": {"docker-manifest-digest": subject.digest},
                "type": _KIND,
            },
            "optional": {"creator": "envbuilder"},
        },
        separators=(",", ":"),
    ).encode()
    signature = base64.b64encode(key.sign(payload)).decode()
    layer = {
        "mediaType": _PAYLOAD,
        "digest": registry.put_blob(target.repository, payload),
        "size": len(payload),
        "annotations": {_SIGNATURE: signature},
    }
    _store(registry, target.repository, _tag(subject.digest), layer)
    _refer(registry, target.repository, subject, layer)


def verify(registry: Registry, place: Reference, digest: str, name: Reference, keys: Sequence[PublicKey]) -> Signed:
    """Return the signature of an image under a name that one of the keys accepts, or refuse the image.

    `place` is where the image comes from, which may be a mirror of the registry in its name.
    """
    found = list(accepted(registry, place.repository, digest, keys))
    for item in found:
        if _is_of(item.name, name):
            return item
    files = ", ".join(key.file for key in keys)
    if found:
        raise ValidationError(f"{place} is signed as {found[0].name}, and not as {name}", hint="nothing was pulled")
    count = sum(1 for _ in _signatures(registry, place.repository, digest))
    if count:
        raise ValidationError(f"none of the signatures of {place} ({count}) is of {files}", hint="nothing was pulled")
    raise ValidationError(f"{place} has no signature, and must have one of {files}", hint="nothing was pulled")


def accepted(registry: Registry, repository: str, digest: str, keys: Sequence[PublicKey]) -> Iterator[Signed]:
    """Yield the signatures of an image that one of the keys accepts."""
    for payload, signature in _signatures(registry, repository, digest):
        key = next((key for key in keys if key.accepts(signature, payload)), None)
        name = _name_in(payload, digest) if key else None
        if key is not None and name is not None:
            yield Signed(name, key)


def _is_of(signed: str, name: Reference) -> bool:
    """Return whether a signature is for this name: cosign leaves out the tag."""
    return signed in {str(name._replace(digest=None)), name.name}


def _name_in(payload: bytes, digest: str) -> str | None:
    """Return the name that a payload states for the image with this digest, or None if it is for another one."""
    try:
        critical = json.loads(payload)["critical"]
        if critical["type"] != _KIND or critical["image"]["docker-manifest-digest"] != digest:
            return None
        return str(critical["identity"]["docker-reference"])
    except (ValueError, KeyError, TypeError):
        return None


def _signatures(registry: Registry, repository: str, digest: str) -> Iterator[tuple[bytes, bytes]]:
    """Yield the payloads and signatures that a registry has for an image, each once."""
    seen = set()
    for document in _documents(registry, repository, digest):
        for layer in _layers(document):
            text = (layer.get("annotations") or {}).get(_SIGNATURE)
            if layer.get("mediaType") != _PAYLOAD or not text or (layer.get("digest"), text) in seen:
                continue
            seen.add((layer.get("digest"), text))
            if len(seen) > _MOST_SIGNATURES or layer.get("size", 0) > _LONGEST_PAYLOAD:
                return
            try:
                signature = base64.b64decode(text, validate=True)
            except (binascii.Error, TypeError):
                continue
            yield registry.blob(repository, str(layer["digest"])), signature


def _documents(registry: Registry, repository: str, digest: str) -> Iterator[dict[str, Any]]:
    with suppress(NoMatchError):
        yield registry.manifest(repository, _tag(digest)).document
    listed = [item for item in registry.referrers(repository, digest) if item.get("artifactType") == _ARTIFACT]
    for item in listed[:_MOST_SIGNATURES]:
        yield registry.manifest(repository, str(item["digest"])).document


def _layers(document: dict[str, Any]) -> list[dict[str, Any]]:
    layers = document.get("layers")
    return [layer for layer in layers if isinstance(layer, dict)] if isinstance(layers, list) else []


def _tag(digest: str) -> str:
    return f"{digest.replace(':', '-')}.sig"


def _store(registry: Registry, repository: str, tag: str, layer: dict[str, Any]) -> None:
    """Add a layer to the image that holds the signatures of another one; those that are there stay."""
    try:
        layers = _layers(registry.manifest(repository, tag).document)
    except NoMatchError:
        layers = []
    registry.put_manifest(repository, tag, _manifest(registry, repository, [*layers, layer]), MANIFEST_TYPES[0])


def _refer(registry: Registry, repository: str, subject: Manifest, layer: dict[str, Any]) -> None:
    descriptor = {"mediaType": subject.media_type, "digest": subject.digest, "size": len(subject.content)}
    content = _manifest(registry, repository, [layer], artifactType=_ARTIFACT, subject=descriptor)
    digest, is_listed = registry.put_attachment(repository, content, MANIFEST_TYPES[0])
    if not is_listed:
        item = {"mediaType": MANIFEST_TYPES[0], "digest": digest, "size": len(content), "artifactType": _ARTIFACT}
        list_under_tag(registry, repository, subject.digest, item)


def _manifest(registry: Registry, repository: str, layers: list[dict[str, Any]], **more: object) -> bytes:
    """Return the manifest of an image with these layers, whose configuration lists them, as programs expect."""
    rootfs = {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]}
    config = json.dumps({"architecture": "", "os": "", "config": {}, "rootfs": rootfs}).encode()
    descriptor = {"mediaType": _CONFIG, "digest": registry.put_blob(repository, config), "size": len(config)}
    document = {"schemaVersion": 2, "mediaType": MANIFEST_TYPES[0], "config": descriptor, "layers": layers, **more}
    return json.dumps(document, sort_keys=True).encode()
