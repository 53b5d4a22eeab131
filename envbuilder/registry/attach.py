"""Attaches documents to a published image: they name it as their subject, and are found by its digest."""

from __future__ import annotations

import json
from typing import Any

from envbuilder.registry.client import INDEX_TYPES, MANIFEST_TYPES, Manifest, Registry

VALIDATION = "application/vnd.envbuilder.validation.v1+json"
BILL = "application/vnd.cyclonedx+json"
_EMPTY_TYPE, _EMPTY = "application/vnd.oci.empty.v1+json", b"{}"


def attach(registry: Registry, repository: str, subject: Manifest, kind: str, content: bytes) -> str:
    """Attach a document to an image, and return the digest of the attachment. The same content is attached once."""
    config = {"mediaType": _EMPTY_TYPE, "digest": registry.put_blob(repository, _EMPTY), "size": len(_EMPTY)}
    layer = {"mediaType": kind, "digest": registry.put_blob(repository, content), "size": len(content)}
    return refer(registry, repository, subject, kind, {"config": config, "layers": [layer]})


def refer(registry: Registry, repository: str, subject: Manifest, kind: str, parts: dict[str, Any]) -> str:
    """Store the parts of a manifest as a referrer of an image, and return its digest."""
    descriptor = {"mediaType": subject.media_type, "digest": subject.digest, "size": len(subject.content)}
    fixed = {"schemaVersion": 2, "mediaType": MANIFEST_TYPES[0], "artifactType": kind, "subject": descriptor}
    manifest = json.dumps({**fixed, **parts}, sort_keys=True).encode()
    digest, is_listed = registry.put_attachment(repository, manifest, MANIFEST_TYPES[0])
    if not is_listed:
        item = {"mediaType": MANIFEST_TYPES[0], "digest": digest, "size": len(manifest), "artifactType": kind}
        _list_under_tag(registry, repository, subject.digest, item)
    return digest


def _list_under_tag(registry: Registry, repository: str, subject: str, item: dict[str, Any]) -> None:
    """List an attachment under a tag of its image, for a registry that does not list attachments itself."""

    def listing(index: dict[str, Any] | None) -> bytes | None:
        listed = index["manifests"] if index else []
        if any(other["digest"] == item["digest"] for other in listed):
            return None
        whole = {"schemaVersion": 2, "mediaType": INDEX_TYPES[0], "manifests": [*listed, item]}
        return json.dumps(whole).encode()

    registry.amend(repository, subject.replace(":", "-"), INDEX_TYPES[0], listing)


def attached(registry: Registry, repository: str, subject: str, kind: str) -> bytes | None:
    """Return the newest attachment of a kind, or None."""
    found = [item for item in registry.referrers(repository, subject) if item.get("artifactType") == kind]
    if not found:
        return None
    document = registry.manifest(repository, str(found[-1]["digest"])).document
    return registry.blob(repository, document["layers"][0]["digest"])
