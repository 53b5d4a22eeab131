"""The client against a real registry: TLS and a password, many tags, and faults of the connection."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from envbuilder.errors import NetworkError, NoMatchError
from envbuilder.registry.client import MANIFEST_TYPES, Registry
from envbuilder.registry.credentials import Credentials
from tests.helpers.servers import Faults, Secured, faulty, registry, secured_registry

CONTENT = os.urandom(300_000)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_registry(tmp_path_factory.mktemp("secured")) as found:
        yield found


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with registry(tmp_path_factory.mktemp("plain")) as address:
        publish(Registry(address), "toy/image", "one")
        yield address


@pytest.fixture
def faults(plain: str) -> Iterator[Faults]:
    with faulty(plain) as found:
        yield found


def publish(there: Registry, repository: str, *tags: str) -> str:
    """Push a small image under these tags; return its digest."""
    config = there.put_blob(repository, b'{"architecture": "arm64", "config": {"Labels": {}}}')
    layer = there.put_blob(repository, CONTENT)
    manifest = {
        "schemaVersion": 2, "mediaType": MANIFEST_TYPES[0],
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": config, "size": 51},
        "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": layer, "size": len(CONTENT)}],
    }  # fmt: skip
    for tag in tags:
        digest = there.put_manifest(repository, tag, json.dumps(manifest).encode(), MANIFEST_TYPES[0])
    return digest


def of(secured: Secured, password: str | None = None) -> Registry:
    return Registry(secured.address, secured.ca_bundle, Credentials(secured.user, password or secured.password))


def test_an_image_is_pushed_and_read_again(secured: Secured) -> None:
    there = of(secured)
    digest = publish(there, "toy/image", "one")
    by_tag, by_digest = there.manifest("toy/image", "one"), there.manifest("toy/image", digest)
    assert by_tag == by_digest and by_tag.digest == digest and not by_tag.is_index
    assert there.blob("toy/image", by_tag.document["layers"][0]["digest"]) == CONTENT


def test_missing_tags_and_blobs(secured: Secured) -> None:
    with pytest.raises(NoMatchError, match="has no two"):
        of(secured).manifest("toy/nothing", "two")
    assert of(secured).tags("toy/nothing") == []
    with pytest.raises(NoMatchError):
        of(secured).blob("toy/nothing", "sha256:" + "0" * 64)


def test_a_wrong_and_a_missing_password(secured: Secured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with pytest.raises(NetworkError, match="the password of 'ann' is not accepted") as caught:
        of(secured, "wrong").tags("toy/image")
    assert caught.value.exit_code == 7 and caught.value.hint == f"docker login {secured.address}"
    with pytest.raises(NetworkError, match="a password is required"):
        Registry(secured.address, secured.ca_bundle).tags("toy/image")


def test_an_unknown_certificate_is_refused(secured: Secured) -> None:
    with pytest.raises(NetworkError, match=f"the TLS certificate of {secured.address} is not trusted") as caught:
        Registry(secured.address).tags("toy/image")
    assert "--ca-bundle" in str(caught.value.hint)


@pytest.mark.parametrize("page", [0, 7, 50])
def test_many_tags_come_in_pages(faults: Faults, page: int) -> None:
    names = sorted(f"tag-{number:03}" for number in range(50))
    there = Registry(faults.address)
    publish(there, "toy/many", *names)
    faults.page = page
    assert there.tags("toy/many") == names
    assert sum("/tags/list" in line for line in faults.seen) == (8 if page == 7 else 1)


def test_a_broken_download_is_continued(faults: Faults) -> None:
    faults.cuts = 3
    there = Registry(faults.address, back_off=0.001)
    digest = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"
    assert there.blob("toy/image", digest) == CONTENT
    ranges = [line.rpartition("=")[2] for line in faults.seen if "/blobs/" in line and "bytes=" in line]
    assert ranges == ["131072-", "196608-", "196608-"], "whole pieces that are here are not requested again"


def test_a_download_that_always_breaks_is_an_error(faults: Faults) -> None:
    faults.cuts = 99
    with pytest.raises(NetworkError, match="breaks the connection in the middle"):
        Registry(faults.address, back_off=0.001).blob("toy/image", f"sha256:{hashlib.sha256(CONTENT).hexdigest()}")


def test_a_busy_registry_is_retried(faults: Faults) -> None:
    there = Registry(faults.address, back_off=0.001)
    faults.unavailable = 4
    assert there.tags("toy/image") == ["one"]
    faults.unavailable = 99
    with pytest.raises(NetworkError, match="does not answer: 503"):
        there.tags("toy/image")


def test_changed_content_is_refused(faults: Faults) -> None:
    there = Registry(faults.address, back_off=0.001)
    digest = there.manifest("toy/image", "one").digest
    faults.changed_manifests = True
    for wanted in ("one", digest):
        with pytest.raises(NetworkError, match="has another digest"):
            there.manifest("toy/image", wanted)
    faults.changed_manifests, faults.changed_blobs = False, True
    with pytest.raises(NetworkError, match="has another digest"):
        there.blob("toy/image", f"sha256:{hashlib.sha256(CONTENT).hexdigest()}")


def test_an_expired_token_is_renewed(faults: Faults) -> None:
    there = Registry(faults.address, back_off=0.001)
    there.tags("toy/image")
    faults.expired = 1
    assert there.tags("toy/image") == ["one"]
    assert sum("/token" in line for line in faults.seen) == 1
    # an expired token is replaced again
    faults.expired = 1
    assert there.tags("toy/image") == ["one"]
    assert sum("/token" in line for line in faults.seen) == 2


def test_a_registry_that_does_not_answer() -> None:
    with pytest.raises(NetworkError, match="does not answer") as caught:
        Registry("127.0.0.1:1", back_off=0.001).tags("toy/image")
    assert caught.value.exit_code == 7


def test_attachments_are_found_under_a_tag_where_the_registry_does_not_know_them(plain: str) -> None:
    there = Registry(plain)
    digest = there.manifest("toy/image", "one").digest
    assert there.referrers("toy/image", digest) == []
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []}
    there.put_manifest("toy/image", digest.replace(":", "-"), json.dumps(index).encode(), index["mediaType"])  # type: ignore[arg-type]
    assert there.referrers("toy/image", digest) == []
