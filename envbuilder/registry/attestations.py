"""Signed attestations of a published image: how it was made (SLSA provenance) and what is in it (CycloneDX).

An attestation is an in-toto statement on the digest of an image, in an envelope with its signature (DSSE). It is stored
where cosign stores its own.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from envbuilder import __version__
from envbuilder.environment import image_names
from envbuilder.errors import ValidationError
from envbuilder.language import tr
from envbuilder.registry.answers import AnswerError, answer_of
from envbuilder.registry.client import Manifest, Registry
from envbuilder.registry.cosign import SIGNATURE, Kind, keep, kept
from envbuilder.registry.reference import Reference
from envbuilder.signing.keys import PrivateKey, PublicKey

PROVENANCE = "https://slsa.dev/provenance/v1"
BILL = "https://cyclonedx.org/bom"
_STATEMENT = "https://in-toto.io/Statement/v1"
_PAYLOAD = "application/vnd.in-toto+json"
_ENVELOPE = "application/vnd.dsse.envelope.v1+json"
_STORED = Kind("att", _ENVELOPE, _ENVELOPE)
# a bill of a large image has a few hundred kB
_LONGEST = 2**24
# each costs time
_MOST_SIGNATURES = 16
# the same for everyone; the key shows who built the image
_BUILD_TYPE, _BUILDER = "urn:envbuilder:build:v1", "urn:envbuilder:builder:v1"


class Attested(NamedTuple):
    """A statement on an image that a key has signed."""

    predicate_type: str
    predicate: Mapping[str, Any]
    key: PublicKey


def provenance(labels: Mapping[str, str], created: str, bill: Mapping[str, Any]) -> dict[str, Any]:
    """Return how an image was made: its row, its lock, its sources, its base image, and how far it was proven."""
    proven = {"level": labels.get(image_names.PROVEN), "digest": labels.get(image_names.VALIDATION)}
    return {
        "buildDefinition": {
            "buildType": _BUILD_TYPE,
            "externalParameters": {
                "environment": labels.get(image_names.ENVIRONMENT),
                "lock": labels.get(image_names.LOCK),
                "inputs": labels.get(image_names.INPUTS),
                **({"fallback": labels[image_names.FALLBACK]} if image_names.FALLBACK in labels else {}),
                **_of_project(labels),
            },
            "resolvedDependencies": list(_dependencies(bill)),
        },
        "runDetails": {
            "builder": {"id": _BUILDER, "version": {"envbuilder": __version__}},
            "metadata": {"finishedOn": created},
            "byproducts": [{"name": "validation", "annotations": proven}] if all(proven.values()) else [],
        },
    }


def _of_project(labels: Mapping[str, str]) -> dict[str, Any]:
    """Return the project that is on the row, with its lock and the commits of its own sources."""
    if image_names.PROJECT not in labels:
        return {}
    prefix = image_names.PROJECT_SOURCE
    own = {name.removeprefix(prefix): digest for name, digest in labels.items() if name.startswith(prefix)}
    sources = {name: {"source": labels.get(f"{image_names.SOURCE}{name}"), "archive": own[name]} for name in own}
    return {
        "project": labels[image_names.PROJECT],
        "projectLock": labels.get(image_names.PROJECT_LOCK),
        "projectSources": sources,
    }


def is_ours(item: Attested) -> bool:
    """Return whether a statement is a provenance that envbuilder has written."""
    definition = item.predicate.get("buildDefinition")
    is_our_build = isinstance(definition, dict) and definition.get("buildType") == _BUILD_TYPE
    return item.predicate_type == PROVENANCE and is_our_build


def _dependencies(bill: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the base image and the sources of an image, which its bill lists, with commits and hashes."""
    for part in bill.get("components", ()):
        values = {item["name"]: item["value"] for item in part.get("properties", ())}
        if part.get("bom-ref") == "base":
            yield {"name": part["name"], "uri": f"docker://{part['name']}", "digest": _digest(part["version"])}
        elif "envbuilder:source" in values:
            kind, _, reference = values["envbuilder:source"].partition(":")
            where = next((item["url"] for item in part.get("externalReferences", ())), part.get("purl", ""))
            commit = {"gitCommit": reference} if kind == "git" else {}
            digest = {**commit, **_digest(values.get("envbuilder:archive", ""))}
            yield {"name": part["name"], "uri": f"git+{where}" if commit else part.get("purl", ""), "digest": digest}


def _digest(text: str) -> dict[str, str]:
    kind, _, value = text.partition(":")
    return {kind: value} if value else {}


def attest(
    registry: Registry, target: Reference, subject: Manifest, kind: str, predicate: Mapping[str, Any], key: PrivateKey
) -> None:
    """Store a signed statement on an image, unless this key has signed the same one already."""
    known = attested(registry, target.repository, subject.digest, (key.public,))
    if any((item.predicate_type, item.predicate) == (kind, predicate) for item in known):
        return
    digest = {"sha256": subject.digest.partition(":")[2]}
    document = {
        "_type": _STATEMENT,
        "subject": [{"name": target.name, "digest": digest}],
        "predicateType": kind,
        "predicate": predicate,
    }
    body = json.dumps(document, sort_keys=True).encode()
    signature = base64.b64encode(key.sign(_signed_bytes(body))).decode()
    envelope = {
        "payloadType": _PAYLOAD,
        "payload": base64.b64encode(body).decode(),
        "signatures": [{"keyid": key.public.fingerprint, "sig": signature}],
    }
    content = json.dumps(envelope).encode()
    keep(registry, target.repository, subject, _STORED, content, {SIGNATURE: "", "predicateType": kind})


def attested(registry: Registry, repository: str, digest: str, keys: Sequence[PublicKey]) -> Iterator[Attested]:
    """Yield the statements on an image that one of the keys has signed."""
    items = (_opened(content, digest, keys) for content, _ in kept(registry, repository, digest, _STORED, _LONGEST))
    yield from (item for item in items if item is not None)


def verify_all(registry: Registry, place: Reference, digest: str, keys: Sequence[PublicKey]) -> list[Attested]:
    """Return all statements on an image, and refuse the image if no key accepts one of them."""
    found = []
    for content, _ in kept(registry, place.repository, digest, _STORED, _LONGEST):
        item = _opened(content, digest, keys)
        if item is None:
            files = ", ".join(key.file for key in keys)
            raise ValidationError(
                tr("an attestation of {place} is not of {files}", place=place, files=files),
                hint=tr("nothing was pulled"),
            )
        found.append(item)
    return found


def _opened(content: bytes, digest: str, keys: Sequence[PublicKey]) -> Attested | None:
    """Return the statement in an envelope, if it is on this image and one of the keys has signed it."""
    try:
        envelope = answer_of(content, digest).content
        body = base64.b64decode(envelope["payload"], validate=True)
        signatures = [
            base64.b64decode(item["sig"], validate=True) for item in envelope["signatures"][:_MOST_SIGNATURES]
        ]
        if envelope["payloadType"] != _PAYLOAD:
            return None
        key = next((key for key in keys for item in signatures if key.accepts(item, _signed_bytes(body))), None)
        if key is None:
            return None
        statement = answer_of(body, digest).content
        subjects = [item["digest"].get("sha256") for item in statement["subject"]]
        if digest.partition(":")[2] not in subjects:
            return None
        return Attested(str(statement["predicateType"]), dict(statement["predicate"]), key)
    except (AnswerError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _signed_bytes(body: bytes) -> bytes:
    """Return the bytes that a signature of an envelope covers (DSSE's pre-authentication encoding)."""
    return b"DSSEv1 %d %s %d %s" % (len(_PAYLOAD), _PAYLOAD.encode(), len(body), body)
