"""Attaches documents to a published image: they name it as their subject, and its digest leads to them."""

from __future__ import annotations

import json
from typing import Any

from envbuilder.files import digest_of
from envbuilder.language import tr
from envbuilder.registry.answers import Answer, AnswerError
from envbuilder.registry.client import INDEX_TYPES, MANIFEST_TYPES, Manifest, Registry

VALIDATION = "application/vnd.envbuilder.validation.v1+json"
BILL = "application/vnd.cyclonedx+json"
_EMPTY_TYPE, _EMPTY = "application/vnd.oci.empty.v1+json", b"{}"


def attach(registry: Registry, repository: str, subject: Manifest, kind: str, content: bytes) -> None:
    """Attach a document to an image. The same content is attached once."""
    config = stored(registry, repository, _EMPTY_TYPE, _EMPTY)
    layer = stored(registry, repository, kind, content)
    refer(registry, repository, subject, kind, {"config": config, "layers": [layer]})


def stored(registry: Registry, repository: str, kind: str, content: bytes) -> dict[str, Any]:
    """Upload a blob unless the registry has it, and return its descriptor."""
    return {"mediaType": kind, "digest": registry.put_blob(repository, content), "size": len(content)}


def refer(registry: Registry, repository: str, subject: Manifest, kind: str, parts: dict[str, Any]) -> None:
    """Store the parts of a manifest as a referrer of an image."""
    fixed = {"schemaVersion": 2, "mediaType": MANIFEST_TYPES[0], "artifactType": kind, "subject": subject.descriptor}
    content = json.dumps({**fixed, **parts}, sort_keys=True).encode()
    attachment = Manifest(digest_of(content), MANIFEST_TYPES[0], content)
    if not registry.put_attachment(repository, attachment):
        item = {**attachment.descriptor, "artifactType": kind}
        _list_under_tag(registry, repository, subject.digest, item)


def _list_under_tag(registry: Registry, repository: str, subject: str, item: dict[str, Any]) -> None:
    """List an attachment under a tag of its image, for a registry that does not list attachments itself."""

    def listing(index: dict[str, Any] | None) -> bytes | None:
        listed = [part.content for part in Answer(index or {}, repository).parts("manifests")]
        if any(other.get("digest") == item["digest"] for other in listed):
            return None
        whole = {"schemaVersion": 2, "mediaType": INDEX_TYPES[0], "manifests": [*listed, item]}
        return json.dumps(whole).encode()

    registry.amend(repository, subject.replace(":", "-"), INDEX_TYPES[0], listing)


def attached(registry: Registry, repository: str, subject: str, kind: str) -> bytes | None:
    """Return the newest attachment of a kind, or None."""
    found = [item for item in registry.referrers(repository, subject) if item.artifact_type == kind]
    if not found:
        return None
    layers = registry.manifest(repository, found[-1].digest).layers
    if not layers:
        raise AnswerError(found[-1].digest, tr("it has no {place}", place="layers[0]"))
    return registry.blob(repository, layers[0].digest, layers[0].size)
