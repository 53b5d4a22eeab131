"""A registry in memory, which shows what was stored in it, and lies when a test wants it to."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager

from envbuilder.files import digest_of
from envbuilder.registry.client import MANIFEST_TYPES, Registry
from tests.helpers.web_server import Handler, body_of, reply, serving

CONFIG = {"architecture": "arm64", "os": "linux", "config": {"Labels": {}}, "rootfs": {"diff_ids": ["sha256:1"]}}


class Store:
    """What a registry has. From the request number `at` on, a tag of images has the manifest `evil`."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, tuple[str, bytes]] = {}
        self.evil = b""
        self.at = 10**6
        self.asked = 0

    def answer(self, handler: Handler, _: int) -> None:
        parts = handler.path.partition("?")[0].split("/")
        kind, name = parts[-2], parts[-1]
        if kind == "manifests":
            self._manifest(handler, name)
        elif kind == "blobs":
            found = self.blobs.get(name)
            reply(handler, 404 if found is None else 200, found or b"", "application/octet-stream")
        elif handler.command == "POST":
            reply(handler, 202, Location=f"{handler.path}here")
        elif handler.command == "PUT":
            content = body_of(handler)
            self.blobs[digest_of(content)] = content
            reply(handler, 201)
        else:
            reply(handler, 200 if handler.path == "/v2/" else 404)

    def _manifest(self, handler: Handler, name: str) -> None:
        if handler.command == "PUT":
            content = body_of(handler)
            for stored in (name, digest_of(content)):
                self.manifests[stored] = (handler.headers["Content-Type"], content)
            reply(handler, 201, OCI_Subject="here")
            return
        if not name.startswith("sha256"):
            self.asked += 1
            if self.asked >= self.at:
                reply(handler, 200, self.evil, MANIFEST_TYPES[0])
                return
        kind, content = self.manifests.get(name, ("", b""))
        reply(handler, 200 if kind else 404, content, kind)

    @property
    def signed(self) -> set[str]:
        """Return the digests of which a signature or an attestation was stored."""
        found = set()
        for content in self.blobs.values():
            try:
                document = json.loads(content)
            except ValueError:
                continue
            if "critical" in document:
                found.add(document["critical"]["image"]["docker-manifest-digest"])
            elif "payload" in document:
                statement = json.loads(base64.b64decode(document["payload"]))
                found.add(f"sha256:{statement['subject'][0]['digest']['sha256']}")
        return found


@contextmanager
def in_memory() -> Iterator[tuple[str, Store]]:
    store = Store()
    with serving(store.answer) as server:
        yield server.host, store


def published(host: str, tag: str, **config: object) -> bytes:
    """Publish an image of no layers, and return its manifest."""
    registry = Registry(host, back_off=0)
    content = json.dumps({**CONFIG, **config}).encode()
    document = {
        "schemaVersion": 2,
        "config": {"digest": registry.put_blob("verl", content), "size": len(content)},
        "layers": [],
    }
    manifest = json.dumps(document).encode()
    registry.put_manifest("verl", tag, manifest, MANIFEST_TYPES[0])
    return manifest
