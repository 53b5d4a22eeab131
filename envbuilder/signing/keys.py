"""Keys that sign images and bundles: ECDSA on P-256, in the files that cosign and containers/image read and write."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from envbuilder.errors import HostError, UsageError
from envbuilder.files import digest_of
from envbuilder.language import tr
from envbuilder.paths import with_extra

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey

# all programs read the first, which envbuilder writes; newer ones write the second
_PEM_TYPES = ("ENCRYPTED COSIGN PRIVATE KEY", "ENCRYPTED SIGSTORE PRIVATE KEY")
# programs accept only the two costs that cosign has used
_COST = {"N": 2**15, "r": 8, "p": 1}
_MOST = 2**17


class PublicKey(NamedTuple):
    """A key that verifies signatures, and the first digits of its digest, which identify it in messages."""

    key: EllipticCurvePublicKey
    fingerprint: str
    file: str

    def accepts(self, signature: bytes, content: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.hashes import SHA256

        try:
            self.key.verify(signature, content, ECDSA(SHA256()))
        except InvalidSignature:
            return False
        return True


class PrivateKey(NamedTuple):
    """A key that signs."""

    key: EllipticCurvePrivateKey
    public: PublicKey

    def sign(self, content: bytes) -> bytes:
        from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
        from cryptography.hazmat.primitives.hashes import SHA256

        return self.key.sign(content, ECDSA(SHA256()))


def require_cryptography() -> None:
    """Raise an error if the Python packages for signatures are not installed."""
    try:
        import cryptography
        import nacl.secret
    except ImportError as error:
        raise HostError(tr("signatures need the packages cryptography and pynacl"), hint=with_extra("sign")) from error
    del cryptography, nacl


def make_keys(password: bytes) -> tuple[bytes, bytes]:
    """Return the content of two new files: the private key, encrypted with a password, and the public key."""
    require_cryptography()
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return _encrypted(key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption()), password), public


def read_public(file: Path) -> PublicKey:
    """Return the public key in a file."""
    require_cryptography()
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    content = _content(file)
    try:
        return _public(load_pem_public_key(content), str(file))
    except ValueError as error:
        raise UsageError(
            tr("{file} is not a public key", file=file), hint=tr("envbuilder keys new writes one; so does cosign")
        ) from error


def read_private(file: Path, password: bytes) -> PrivateKey:
    """Return the private key in a file: one of cosign or envbuilder, or a PEM without a password."""
    require_cryptography()
    from cryptography.hazmat.primitives.serialization import load_der_private_key, load_pem_private_key

    text = _content(file)
    try:
        if any(f"BEGIN {kind}".encode() in text for kind in _PEM_TYPES):
            key = load_der_private_key(_decrypted(text, password, file), None)
        else:
            key = load_pem_private_key(text, None)
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(
            tr("{file} is not a private key", file=file), hint=tr("envbuilder keys new writes one; so does cosign")
        ) from error
    public = _public(key.public_key(), str(file))
    return PrivateKey(key, public)  # type: ignore[arg-type]


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise UsageError(tr("{file} cannot be read: {reason}", file=file, reason=error.strerror)) from error


def _public(key: Any, file: str) -> PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    if not isinstance(key, EllipticCurvePublicKey):
        raise UsageError(tr("{file} is a key of another kind: signatures are made with ECDSA, as by cosign", file=file))
    content = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return PublicKey(key, digest_of(content).partition(":")[2][:16], file)


def _encrypted(content: bytes, password: bytes) -> bytes:
    """Return a private key as cosign encrypts it: scrypt turns the password into a key for secretbox."""
    from nacl.secret import SecretBox

    salt, nonce = os.urandom(32), os.urandom(SecretBox.NONCE_SIZE)
    box = SecretBox(_derived(password, salt, _COST))
    document = {
        "kdf": {"name": "scrypt", "params": _COST, "salt": _text(salt)},
        "cipher": {"name": "nacl/secretbox", "nonce": _text(nonce)},
        "ciphertext": _text(box.encrypt(content, nonce).ciphertext),
    }
    body = base64.encodebytes(json.dumps(document).encode()).decode().replace("\n", "")
    lines = [body[at : at + 64] for at in range(0, len(body), 64)]
    return "\n".join([f"-----BEGIN {_PEM_TYPES[0]}-----", *lines, f"-----END {_PEM_TYPES[0]}-----", ""]).encode()


def _decrypted(text: bytes, password: bytes, file: Path) -> bytes:
    from nacl.exceptions import CryptoError
    from nacl.secret import SecretBox

    body = b"".join(line for line in text.splitlines() if not line.startswith(b"-----"))
    try:
        document = json.loads(base64.b64decode(body, validate=True))
        kdf, cipher = document["kdf"], document["cipher"]
        if kdf["name"] != "scrypt" or cipher["name"] != "nacl/secretbox":
            raise ValueError(kdf["name"], cipher["name"])
        cost = {name: int(kdf["params"][name]) for name in ("N", "r", "p")}
        if not 1 < cost["N"] <= _MOST or not 0 < cost["r"] <= 16 or not 0 < cost["p"] <= 4:
            raise ValueError(cost)
        box = SecretBox(_derived(password, base64.b64decode(kdf["salt"]), cost))
        return bytes(box.decrypt(base64.b64decode(document["ciphertext"]), base64.b64decode(cipher["nonce"])))
    except CryptoError as error:
        raise UsageError(
            tr("the password of {file} is wrong", file=file), hint=tr("set ENVBUILDER_KEY_PASSWORD, or COSIGN_PASSWORD")
        ) from error


def _derived(password: bytes, salt: bytes, cost: dict[str, int]) -> bytes:
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    return Scrypt(salt=salt, length=32, n=cost["N"], r=cost["r"], p=cost["p"]).derive(password)


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
