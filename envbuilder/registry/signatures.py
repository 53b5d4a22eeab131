"""Signs published images and verifies their signatures, in the form of cosign and containers/image (simple signing).

A signature is a small document with the digest and the name of an image, and the signature of its bytes.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from envbuilder.errors import ValidationError
from envbuilder.language import tr
from envbuilder.registry.client import Manifest, Registry
from envbuilder.registry.cosign import SIGNATURE, Kind, keep, kept
from envbuilder.registry.keys import PrivateKey, PublicKey
from envbuilder.registry.reference import Reference

_STORED = Kind(
    "sig", "application/vnd.dev.cosign.simplesigning.v1+json", "application/vnd.dev.cosign.artifact.sig.v1+json"
)
_KIND = "cosign container image signature"
_LONGEST_PAYLOAD = 2**16


class Signed(NamedTuple):
    """A signature that a key accepts: the name under which the image was signed, and the key."""

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
    keep(registry, target.repository, subject, _STORED, payload, {SIGNATURE: signature})


def verify(registry: Registry, place: Reference, digest: str, name: Reference, keys: Sequence[PublicKey]) -> Signed:
    """Return the signature of an image under this name that one of the keys accepts, or refuse the image.

    `place` is where the image comes from; that may be a mirror of the registry in its name.
    """
    found = list(accepted(registry, place.repository, digest, keys))
    for item in found:
        if _is_of(item.name, name):
            return item
    files = ", ".join(key.file for key in keys)
    if found:
        message = tr("{place} is signed as {name}, and not as {wanted}", place=place, name=found[0].name, wanted=name)
    elif count := sum(1 for _ in _signatures(registry, place.repository, digest)):
        message = tr("none of the signatures of {place} ({count}) is of {files}", place=place, count=count, files=files)
    else:
        message = tr("{place} has no signature, and must have one of {files}", place=place, files=files)
    raise ValidationError(message, hint=tr("nothing was pulled"))


def accepted(registry: Registry, repository: str, digest: str, keys: Sequence[PublicKey]) -> Iterator[Signed]:
    """Yield the signatures of an image that one of the keys accepts."""
    for payload, signature in _signatures(registry, repository, digest):
        key = next((key for key in keys if key.accepts(signature, payload)), None)
        if key is not None and (name := _name_in(payload, digest)) is not None:
            yield Signed(name, key)


def _is_of(signed: str, name: Reference) -> bool:
    """Return whether a signature is for this name, with the tag or, as from cosign, without it."""
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
    """Yield the payloads and signatures that a registry has for an image."""
    for payload, text in kept(registry, repository, digest, _STORED, _LONGEST_PAYLOAD):
        with suppress(binascii.Error):
            yield payload, base64.b64decode(text, validate=True)
