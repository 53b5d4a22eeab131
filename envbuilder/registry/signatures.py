"""Signs published images and verifies their signatures, in the form of cosign and containers/image (simple signing).

A signature is a small document with the digest and the name of an image, and the signature of its bytes.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from envbuilder.errors import ValidationError
from envbuilder.language import tr
from envbuilder.registry.client import Manifest, Registry
from envbuilder.registry.cosign import SIGNATURE, Kind, keep, kept
from envbuilder.registry.newest import Seen, rollback
from envbuilder.registry.reference import Reference
from envbuilder.signing.keys import PrivateKey, PublicKey

_STORED = Kind(
    "sig", "application/vnd.dev.cosign.simplesigning.v1+json", "application/vnd.dev.cosign.artifact.sig.v1+json"
)
_KIND = "cosign container image signature"
LONGEST_PAYLOAD = 2**16


class Signature(NamedTuple):
    """A signature as it is stored: the document that was signed, and the signature of its bytes."""

    payload: bytes
    content: bytes


class Signed(NamedTuple):
    """A signature that a key accepts: the name under which the image was signed, the key, and the date."""

    name: str
    key: PublicKey
    # seconds since 1970 by the clock of who signed, or None
    date: int | None


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
            "optional": {"creator": "envbuilder", "timestamp": int(time.time())},
        },
        separators=(",", ":"),
    ).encode()
    signature = base64.b64encode(key.sign(payload)).decode()
    keep(registry, target.repository, subject, _STORED, payload, {SIGNATURE: signature})


def verify(
    registry: Registry, place: Reference, digest: str, name: Reference, keys: Sequence[PublicKey],
    hint: str | None = None,
) -> Signed:  # fmt: skip
    """Return the signature of an image under this name that one of the keys accepts, or refuse the image.

    `place` is where the image comes from; that may be a mirror of the registry in its name.
    """
    found = list(stored_signatures(registry, place.repository, digest))
    return judge(found, str(place), digest, name, keys, hint or tr("nothing was pulled"))


def judge(
    found: Sequence[Signature], place: str, digest: str, name: Reference, keys: Sequence[PublicKey], hint: str
) -> Signed:
    """Return the one of the signatures that is for this name and that one of the keys accepts, or refuse the image."""
    signed = list(_accepted(found, digest, keys))
    for item in signed:
        if _is_of(item.name, name):
            return item
    files = ", ".join(key.file for key in keys)
    if signed:
        message = tr("{place} is signed as {name}, and not as {wanted}", place=place, name=signed[0].name, wanted=name)
    elif found:
        count = len(found)
        message = tr("none of the signatures of {place} ({count}) is of {files}", place=place, count=count, files=files)
    else:
        message = tr("{place} has no signature, and must have one of {files}", place=place, files=files)
    raise ValidationError(message, hint=hint)


def signed_lines(signed: Signed, digest: str) -> Iterator[str]:
    """Yield lines about an accepted signature of the image with this digest."""
    name, key, date = signed
    yield tr("signed as {name} by {file} ({fingerprint})", name=name, file=key.file, fingerprint=key.fingerprint)
    if date is not None and (line := rollback(name, Seen(digest, date))) is not None:
        yield line


def accepted(registry: Registry, repository: str, digest: str, keys: Sequence[PublicKey]) -> Iterator[Signed]:
    """Yield the signatures of an image that one of the keys accepts."""
    yield from _accepted(stored_signatures(registry, repository, digest), digest, keys)


def stored_signatures(registry: Registry, repository: str, digest: str) -> Iterator[Signature]:
    """Yield the signatures that a registry has for an image."""
    for payload, text in kept(registry, repository, digest, _STORED, LONGEST_PAYLOAD):
        with suppress(ValueError):
            yield Signature(payload, base64.b64decode(text, validate=True))


def _accepted(found: Iterable[Signature], digest: str, keys: Sequence[PublicKey]) -> Iterator[Signed]:
    for payload, content in found:
        key = next((key for key in keys if key.accepts(content, payload)), None)
        if key is not None and (signed := _stated(payload, digest)) is not None:
            yield Signed(signed[0], key, signed[1])


def _is_of(signed: str, name: Reference) -> bool:
    """Return whether a signature is for this name, with the tag or, as from cosign, without it."""
    return signed in {str(name._replace(digest=None)), name.name}


def _stated(payload: bytes, digest: str) -> tuple[str, int | None] | None:
    """Return the name and the date that a payload states for the image with this digest, or None if for another."""
    try:
        document = json.loads(payload)
        critical, date = document["critical"], (document.get("optional") or {}).get("timestamp")
        if critical["type"] != _KIND or critical["image"]["docker-manifest-digest"] != digest:
            return None
        # other programs may leave the date out, or write it in another form
        return str(critical["identity"]["docker-reference"]), date if type(date) is int else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
