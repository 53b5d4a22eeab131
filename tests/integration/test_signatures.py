"""Signatures of images: envbuilder and skopeo accept each other's, and refuse unsigned and altered images."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envbuilder.environment.image_names import ENVIRONMENT, LOCK, PROVEN, VALIDATION
from envbuilder.errors import ValidationError
from envbuilder.files import digest_of, turn
from envbuilder.registry.attestations import BILL, PROVENANCE, attest, is_ours, provenance, verify_all
from envbuilder.registry.client import MANIFEST_TYPES, Manifest, Registry
from envbuilder.registry.reference import Reference
from envbuilder.registry.signatures import sign, verify
from envbuilder.signing.keys import make_keys, read_private, read_public
from tests.conftest import Result

PASSWORD = b"a secret of ours"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, Path]:
    """Make two pairs of keys."""
    found = {}
    for name in ("ours", "other"):
        private, public = make_keys(PASSWORD)
        found[name], found[f"{name}.pub"] = tmp_path / f"{name}.key", tmp_path / f"{name}.pub"
        found[name].write_bytes(private)
        found[f"{name}.pub"].write_bytes(public)
    return found


def publish(address: str, tag: str, text: str = "hello") -> tuple[Reference, Manifest]:
    """Publish an image of one small layer."""
    found, content = Registry(address), text.encode()
    rootfs = {"type": "layers", "diff_ids": [digest_of(content)]}
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": rootfs}).encode()
    document = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPES[0],
        "config": {"mediaType": CONFIG, "digest": found.put_blob("team/verl", config), "size": len(config)},
        "layers": [{"mediaType": LAYER, "digest": found.put_blob("team/verl", content), "size": len(content)}],
    }
    found.put_manifest("team/verl", tag, json.dumps(document).encode(), MANIFEST_TYPES[0])
    return Reference.parse(f"{address}/team/verl:{tag}"), found.manifest("team/verl", tag)


def signed(address: str, tag: str, key: Path) -> tuple[Reference, Manifest]:
    name, image = publish(address, tag, tag)
    sign(Registry(address), name, image, read_private(key, PASSWORD))
    return name, image


@pytest.fixture(scope="module")
def root() -> Path:
    """Make a root with the skopeo of Debian 13; that of Debian 12 lacks this kind of signatures."""
    folder = Path(tempfile.gettempdir()) / "envbuilder-skopeo"
    with turn("skopeo for tests", lambda: None):
        if not (folder / "root").is_dir():
            if shutil.which("mmdebstrap") is None:
                pytest.skip("needs mmdebstrap: run `make test`, or apt-get install mmdebstrap")
            folder.mkdir(exist_ok=True)
            words = [
                "mmdebstrap",
                "--variant=extract",
                "--include=base-files,skopeo",
                "trixie",
                str(folder / "unpacked"),
            ]
            subprocess.run(words, check=True, capture_output=True)
            (folder / "unpacked").rename(folder / "root")
    return folder / "root"


class Skopeo:
    """skopeo in its root, with a policy that demands a signature of one key."""

    def __init__(self, root: Path, address: str, key: Path) -> None:
        self._root = root
        self._folder = Path(tempfile.mkdtemp(dir=root / "tmp"))
        demand = {
            "type": "sigstoreSigned",
            "keyData": base64.b64encode(key.read_bytes()).decode(),
            "signedIdentity": {"type": "matchRepoDigestOrExact"},
        }
        transports = {"docker": {address: [demand]}}
        self._write("policy.json", json.dumps({"default": [{"type": "reject"}], "transports": transports}))
        self._write("registries.d/here.yaml", f"docker:\n  {address}:\n    use-sigstore-attachments: true\n")

    def _write(self, name: str, text: str) -> str:
        """Write a file, and return its path in the root."""
        path = self._folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return f"/{path.relative_to(self._root)}"

    def _copy(self, *arguments: str) -> Result:
        inside = f"/{self._folder.relative_to(self._root)}"
        options = ["--policy", f"{inside}/policy.json", "--registries.d", f"{inside}/registries.d", "--tmpdir", inside]
        words = ["chroot", str(self._root), "/usr/bin/skopeo", *options, "copy", *arguments]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    def accepts(self, name: Reference) -> bool:
        target = f"/{tempfile.mkdtemp(dir=self._folder)}".removeprefix(f"/{self._root}")
        done = self._copy("--src-tls-verify=false", f"docker://{name}", f"dir:{target}")
        assert done.returncode == 0 or "Source image rejected" in done.stderr, done.stderr
        return done.returncode == 0

    def sign(self, name: Reference, to: Reference, key: Path) -> None:
        done = self._copy(
            "--src-tls-verify=false", "--dest-tls-verify=false",
            "--sign-by-sigstore-private-key", self._write("sign.key", key.read_text()),
            "--sign-passphrase-file", self._write("password", PASSWORD.decode()),
            f"docker://{name}", f"docker://{to}",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


def test_skopeo_accepts_what_we_signed_and_refuses_the_rest(there: str, keys: dict[str, Path], root: Path) -> None:
    skopeo = Skopeo(root, there, keys["ours.pub"])
    good, image = signed(there, "good", keys["ours"])
    assert skopeo.accepts(good)
    assert skopeo.accepts(good._replace(tag=None, digest=image.digest))
    assert not skopeo.accepts(publish(there, "unsigned")[0])
    assert not skopeo.accepts(signed(there, "other", keys["other"])[0])
    # the tag gets another image
    Registry(there).put_manifest("team/verl", "good", publish(there, "bad", "evil")[1].content, MANIFEST_TYPES[0])
    assert not skopeo.accepts(good)


def test_we_accept_what_skopeo_signed(there: str, keys: dict[str, Path], root: Path) -> None:
    skopeo = Skopeo(root, there, keys["ours.pub"])
    name, _ = signed(there, "first", keys["ours"])
    target = Reference.parse(f"{there}/team/copy:second")
    skopeo.sign(name, target, keys["ours"])
    found = Registry(there)
    digest = found.manifest("team/copy", "second").digest
    accepted = verify(found, target, digest, target, [read_public(keys["ours.pub"])])
    assert accepted.name == str(target)
    with pytest.raises(ValidationError, match="none of the signatures of"):
        verify(found, target, digest, target, [read_public(keys["other.pub"])])


def test_signatures_of_several_keys_stay_beside_each_other(there: str, keys: dict[str, Path]) -> None:
    name, image = signed(there, "both", keys["ours"])
    found = Registry(there)
    for _ in range(2):
        sign(found, name, image, read_private(keys["other"], PASSWORD))
    layers = found.manifest("team/verl", f"{image.digest.replace(':', '-')}.sig").document["layers"]
    assert len(layers) == 2 and len(found.referrers("team/verl", image.digest)) == 2
    for key in ("ours.pub", "other.pub"):
        assert verify(found, name, image.digest, name, [read_public(keys[key])]).key.file == str(keys[key])


def test_what_is_unsigned_altered_or_signed_under_another_name_is_refused(there: str, keys: dict[str, Path]) -> None:
    found, key = Registry(there), read_public(keys["ours.pub"])
    plain, image = publish(there, "plain", "plain")
    with pytest.raises(ValidationError, match="has no signature, and must have one of"):
        verify(found, plain, image.digest, plain, [key])
    name, image = signed(there, "good", keys["ours"])
    with pytest.raises(ValidationError, match=r"is signed as \S+:good, and not as"):
        verify(found, name, image.digest, plain, [key])
    tag = f"{image.digest.replace(':', '-')}.sig"
    whole = found.manifest("team/verl", tag).document
    # it is found with only referrers, too
    found.put_manifest("team/verl", tag, json.dumps({**whole, "layers": []}).encode(), MANIFEST_TYPES[0])
    assert verify(found, name, image.digest, name, [key])
    annotation = next(iter(whole["layers"][0]["annotations"]))
    # every byte counts: one bit of the signature, one of the payload
    signature = bytearray(base64.b64decode(whole["layers"][0]["annotations"][annotation]))
    payload = bytearray(found.blob("team/verl", whole["layers"][0]["digest"]))
    other, other_image = publish(there, "altered", "altered")
    altered = f"{other_image.digest.replace(':', '-')}.sig"
    for place, content in ((len(signature) // 2, signature), (len(payload) // 2, payload)):
        flipped = bytearray(content)
        flipped[place] ^= 1
        sent_payload = bytes(flipped if content is payload else payload)
        sent_signature = bytes(flipped if content is signature else signature)
        layer = {
            **whole["layers"][0],
            "digest": found.put_blob("team/verl", sent_payload),
            "size": len(sent_payload),
            "annotations": {annotation: base64.b64encode(sent_signature).decode()},
        }
        found.put_manifest("team/verl", altered, json.dumps({**whole, "layers": [layer]}).encode(), MANIFEST_TYPES[0])
        with pytest.raises(ValidationError, match="none of the signatures of"):
            verify(found, other, other_image.digest, other, [key])
    # the signature of another image does not count
    found.put_manifest("team/verl", altered, json.dumps(whole).encode(), MANIFEST_TYPES[0])
    with pytest.raises(ValidationError, match="none of the signatures of"):
        verify(found, other, other_image.digest, other, [key])


# --- attestations ----------------------------------------------------------------------------------------


def altered(found: Registry, digest: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the envelope of the only attestation of an image, wherever it is stored."""
    tag = f"{digest.replace(':', '-')}.att"
    whole = found.manifest("team/verl", tag).document
    envelope = json.loads(found.blob("team/verl", whole["layers"][0]["digest"]))
    change(envelope)
    content = json.dumps(envelope).encode()
    layer = {**whole["layers"][0], "digest": found.put_blob("team/verl", content), "size": len(content)}
    found.put_manifest("team/verl", tag, json.dumps({**whole, "layers": [layer]}).encode(), MANIFEST_TYPES[0])


def flip(envelope: dict[str, Any], part: str) -> None:
    content = bytearray(base64.b64decode(envelope[part] if part == "payload" else envelope["signatures"][0]["sig"]))
    content[len(content) // 2] ^= 1
    text = base64.b64encode(content).decode()
    if part == "payload":
        envelope["payload"] = text
    else:
        envelope["signatures"][0]["sig"] = text


def test_an_attestation_contains_only_what_was_signed(there: str, keys: dict[str, Path]) -> None:
    found, ours = Registry(there), read_private(keys["ours"], PASSWORD)
    name, image = publish(there, "attested", "attested")
    bill = {
        "components": [
            {"bom-ref": "base", "name": "docker.io/library/python:3.11", "version": "sha256:" + "a" * 64},
            {
                "bom-ref": "source:verl",
                "name": "verl",
                "purl": "pkg:pypi/verl@0.8.0",
                "externalReferences": [{"url": "https://example.org/verl.git"}],
                "properties": [
                    {"name": "envbuilder:source", "value": "git:" + "c" * 40},
                    {"name": "envbuilder:archive", "value": "sha256:" + "d" * 64},
                ],
            },
        ]
    }
    labels = {ENVIRONMENT: "verl-x", LOCK: "sha256:1", PROVEN: "train", VALIDATION: "sha256:2"}
    made = provenance(labels, "2026-11-18T00:00:00Z", bill)
    for _ in range(2):  # attaching it again changes nothing
        attest(found, name, image, PROVENANCE, made, ours)
    (item,) = verify_all(found, name, image.digest, [ours.public])
    assert is_ours(item) and item.predicate == made
    assert made["buildDefinition"]["externalParameters"] == {
        "environment": "verl-x",
        "lock": "sha256:1",
        "inputs": None,
    }
    assert made["buildDefinition"]["resolvedDependencies"] == [
        {
            "name": "docker.io/library/python:3.11",
            "uri": "docker://docker.io/library/python:3.11",
            "digest": {"sha256": "a" * 64},
        },
        {
            "name": "verl",
            "uri": "git+https://example.org/verl.git",
            "digest": {"gitCommit": "c" * 40, "sha256": "d" * 64},
        },
    ]
    proven = made["runDetails"]["byproducts"][0]["annotations"]
    assert proven == {"level": "train", "digest": "sha256:2"}
    with pytest.raises(ValidationError, match=r"an attestation of .* is not of"):
        verify_all(found, name, image.digest, [read_public(keys["other.pub"])])


@pytest.mark.parametrize("part", ["payload", "signature"])
def test_a_flipped_byte_of_an_attestation_is_refused(there: str, keys: dict[str, Path], part: str) -> None:
    found, ours = Registry(there), read_private(keys["ours"], PASSWORD)
    name, image = publish(there, "flipped", "flipped")
    attest(found, name, image, BILL, {"bomFormat": "CycloneDX"}, ours)
    altered(found, image.digest, lambda envelope: flip(envelope, part))
    with pytest.raises(ValidationError, match="an attestation of"):
        verify_all(found, name, image.digest, [ours.public])


def test_an_attestation_of_another_image_is_refused(there: str, keys: dict[str, Path]) -> None:
    found, ours = Registry(there), read_private(keys["ours"], PASSWORD)
    one, first = publish(there, "one", "one")
    other, second = publish(there, "other", "other")
    attest(found, one, first, BILL, {"bomFormat": "CycloneDX"}, ours)
    stolen = found.manifest("team/verl", f"{first.digest.replace(':', '-')}.att").content
    found.put_manifest("team/verl", f"{second.digest.replace(':', '-')}.att", stolen, MANIFEST_TYPES[0])
    with pytest.raises(ValidationError, match="an attestation of"):
        verify_all(found, other, second.digest, [ours.public])
