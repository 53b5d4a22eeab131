"""Registries with random answers: every command ends with a result, or with one error that can be printed."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envbuilder.errors import EnvbuilderError
from envbuilder.files import digest_of
from envbuilder.registry.answers import answer_of, descriptor
from envbuilder.registry.attach import VALIDATION, attach
from envbuilder.registry.attestations import _ENVELOPE, PROVENANCE, _signed_bytes, attested, is_ours
from envbuilder.registry.client import INDEX_TYPES, MANIFEST_TYPES, Manifest, Registry
from envbuilder.registry.proofs import proof_of
from envbuilder.registry.published import look_up
from envbuilder.registry.push import _lost
from envbuilder.registry.reference import Reference
from envbuilder.registry.signatures import _STORED, accepted, sign
from envbuilder.signing.keys import PrivateKey, PublicKey
from tests.helpers.documents import changed, values, written
from tests.helpers.web_server import Handler, body_of, reply, serving

PRIVATE = generate_private_key(SECP256R1())
KEY = PrivateKey(PRIVATE, PublicKey(PRIVATE.public_key(), "f", "team.pub"))
EMPTY = "sha256:" + "0" * 64
SUBJECT = Manifest(EMPTY, MANIFEST_TYPES[0], b"{}")
CONFIG = {"architecture": "amd64", "created": "2024", "config": {"Labels": {"a": "b"}}}
BLOB = {
    "mediaType": _ENVELOPE,
    "digest": EMPTY,
    "size": 5,
    "annotations": {"dev.cosignproject.cosign/signature": "eA=="},
}
IMAGE = {"schemaVersion": 2, "config": BLOB, "layers": [BLOB, BLOB]}
LISTED = {**BLOB, "artifactType": VALIDATION, "platform": {"architecture": "amd64", "os": "linux"}}
INDEX = {"schemaVersion": 2, "manifests": [LISTED, LISTED]}
REPORT = {"proven": "train", "checks": [{"name": "x", "passed": True}]}
fuzzed = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
headers = st.text('aZ09:/@=,. "\\<>?;%[]\t\x80\xff', max_size=40) | st.sampled_from(
    [
        "http://[",
        "//x",
        "Bearer",
        'Bearer realm="',
        'Basic realm="x"',
        '<>; rel="next"',
        "</v2/x/tags/list?>; rel=next",
        "-1",
    ]
)


class Lying(NamedTuple):
    """A registry whose answers a test changes: content by path, with the status and headers of all answers."""

    host: str
    answers: dict[str, bytes]
    more: dict[str, Any]

    def ask(self, question: Callable[[Registry], object]) -> None:
        """Ask a new client; anything but a result or an error that can be printed fails the test."""
        try:
            question(Registry(self.host, back_off=0))
        except EnvbuilderError as error:
            f"{error.message} {error.hint}".encode()

    def image(self, image: Registry) -> None:
        reference = Reference.parse(f"{self.host}/x:t")
        found = look_up(image, reference, "x86_64")
        f"{found} {proof_of(image, found)}".encode()
        # as an archive is made
        assert all(item["size"] >= 0 and item["digest"] for item in found.manifest.document["layers"])

    def store(self, content: bytes) -> str:
        digest = digest_of(content)
        self.answers[f"x/blobs/{digest}"] = self.answers[f"x/manifests/{digest}"] = content
        return digest


@pytest.fixture(scope="module")
def server() -> Iterator[Lying]:
    def answer(handler: Handler, number: int) -> None:
        path = handler.path.removeprefix("/v2/").partition("?")[0]
        body_of(handler)
        content = found.answers.get(path, found.answers.get("", b""))
        more, kind = dict(found.more), INDEX_TYPES[0] if content[:50].find(b"manifests") > 0 else MANIFEST_TYPES[0]
        status = more.pop("status", 200 if content else 404)
        if handler.path == "/v2/":
            reply(handler, 200)
        elif handler.command == "GET":
            reply(handler, status, content, more.pop("Content-Type", kind), **more)
        else:
            reply(handler, {"HEAD": 404, "POST": 202}.get(handler.command, 201), Location="/v2/x/blobs/uploads/1")

    with serving(answer) as running:
        found = Lying(running.host, {}, {})
        yield found


@pytest.fixture
def registry(server: Lying) -> Lying:
    server.answers.clear()
    server.more.clear()
    return server


@settings(max_examples=200)
@given(written(INDEX) | values().map(json.dumps).map(str.encode) | st.binary(max_size=40))
def test_the_decoder(content: bytes) -> None:
    try:
        found = answer_of(content, "x")
        part = [descriptor(item) for item in found.parts("manifests")]
        f"{part} {found.pairs('annotations')} {found.texts('tags')} {found.text('token', '')}".encode()
        json.dumps(found.content, allow_nan=False).encode()
    except EnvbuilderError as error:
        error.message.encode()


@fuzzed
@given(written(CONFIG), st.data())
def test_images(registry: Lying, config: bytes, data: st.DataObject) -> None:
    registry.answers.clear()
    described = {**BLOB, "digest": registry.store(config), "size": len(config)}
    whole = {**IMAGE, "config": described}
    manifest = data.draw(st.just(json.dumps(whole).encode()) | written(whole))
    report = data.draw(written(REPORT))
    attachment = {**IMAGE, "layers": [{**BLOB, "digest": registry.store(report), "size": len(report)}]}
    listed = {
        **LISTED,
        "digest": registry.store(data.draw(st.just(json.dumps(attachment).encode()) | written(attachment))),
    }
    registry.answers["x/manifests/t"] = manifest
    registry.answers[f"x/referrers/{digest_of(manifest)}"] = json.dumps({"manifests": [listed]}).encode()
    registry.ask(registry.image)


@fuzzed
@given(written(INDEX), written({"name": "x", "tags": ["a", "b"]}))
def test_lists(registry: Lying, index: bytes, tags: bytes) -> None:
    registry.answers.update({"": index, "x/tags/list": tags})
    for question in (
        registry.image,
        lambda asked: asked.tags("x"),
        lambda asked: asked.referrers("x", EMPTY),
        lambda asked: _lost(asked, Reference.parse(f"{registry.host}/x:t"), set()).encode(),
        # lists under a tag are read and written again
        lambda asked: attach(asked, "x", SUBJECT, VALIDATION, b"{}"),
        lambda asked: sign(asked, Reference.parse(f"{registry.host}/x:t"), SUBJECT, KEY),
    ):
        registry.ask(question)


@fuzzed
@given(st.data())
def test_signatures_and_attestations(registry: Lying, data: st.DataObject) -> None:
    statement = {
        "subject": [{"name": "x", "digest": {"sha256": EMPTY[7:]}}],
        "predicateType": PROVENANCE,
        "predicate": {"buildDefinition": {"buildType": "x"}},
    }
    body = data.draw(written(statement))
    signature = base64.b64encode(KEY.sign(_signed_bytes(body))).decode()
    envelope = {
        "payloadType": "application/vnd.in-toto+json",
        "payload": base64.b64encode(body).decode(),
        "signatures": [{"keyid": "", "sig": signature}],
    }
    content = data.draw(st.just(json.dumps(envelope).encode()) | written(envelope))
    kind = data.draw(st.sampled_from([_ENVELOPE, _STORED.layer]))
    layer = {**BLOB, "mediaType": kind, "digest": registry.store(content), "size": len(content)}
    registry.answers[""] = json.dumps(data.draw(st.just({"layers": [layer]}) | changed({"layers": [layer]}))).encode()
    registry.ask(lambda asked: [is_ours(item) for item in attested(asked, "x", EMPTY, (KEY.public,))])
    registry.ask(lambda asked: list(accepted(asked, "x", EMPTY, (KEY.public,))))


@fuzzed
@given(
    st.sampled_from([200, 202, 204, 206, 301, 307, 400, 401, 404, 416, 599]),
    st.dictionaries(
        st.sampled_from(["Link", "Location", "WWW-Authenticate", "Content-Type", "Docker-Content-Digest"]), headers
    ),
    written({"token": "T", "access_token": "T", "manifests": [LISTED]}),
)
def test_headers(registry: Lying, status: int, more: dict[str, str], content: bytes) -> None:
    registry.more.clear()
    registry.more.update(status=status, **more)
    registry.answers[""] = content
    for question in (
        registry.image,
        lambda asked: asked.tags("x"),
        lambda asked: asked.referrers("x", EMPTY),
        lambda asked: asked.blob("x", EMPTY),
        lambda asked: asked.put_blob("x", b"x"),
    ):
        registry.ask(question)


@pytest.mark.parametrize("signature", ["密", "x", "\0", "=" * 1000])
def test_a_signature_of_other_letters_is_none(registry: Lying, signature: str) -> None:
    annotations = {"dev.cosignproject.cosign/signature": signature}
    layer = {**BLOB, "mediaType": _STORED.layer, "digest": registry.store(b"{}"), "annotations": annotations}
    registry.answers[""] = json.dumps({"layers": [layer]}).encode()
    assert list(accepted(Registry(registry.host, back_off=0), "x", EMPTY, (KEY.public,))) == []
