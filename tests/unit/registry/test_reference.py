"""Names of images, and the credentials that docker keeps for registries."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from envbuilder.errors import UsageError
from envbuilder.registry.credentials import Credentials, credentials_of
from envbuilder.registry.reference import Reference

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("text", "registry", "repository", "tag", "digest"),
    [
        ("debian", "docker.io", "library/debian", None, None),
        ("ascendai/cann:8.3", "docker.io", "ascendai/cann", "8.3", None),
        ("quay.io/ascend/verl:v1-a3", "quay.io", "ascend/verl", "v1-a3", None),
        ("localhost/x", "localhost", "x", None, None),
        (f"127.0.0.1:5000/a/b:c@{DIGEST}", "127.0.0.1:5000", "a/b", "c", DIGEST),
    ],
)
def test_names_are_parsed_as_docker_parses_them(
    text: str, registry: str, repository: str, tag: str | None, digest: str | None
) -> None:
    found = Reference.parse(text)
    assert found == Reference(registry, repository, tag, digest)
    assert Reference.parse(str(found)) == found


@pytest.mark.parametrize("text", ["", "Upper/case", "a/b:", "a/b@sha256:1", "a//b", "a b", "quay.io/x:y:z", "x:-bad"])
def test_invalid_names_are_refused(text: str) -> None:
    if text == "a/b:":
        assert Reference.parse(text).tag is None
        return
    with pytest.raises(UsageError):
        Reference.parse(text)


def test_docker_hub_has_another_host_for_its_api() -> None:
    assert Reference.parse("debian").api == "registry-1.docker.io"
    assert Reference.parse("quay.io/x/y").api == "quay.io"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "config.json"


def test_credentials_of_the_config_file(config: Path) -> None:
    assert credentials_of("quay.io") is None
    auth = base64.b64encode(b"ann:se:cret").decode()
    config.write_text(
        json.dumps({"auths": {"https://index.docker.io/v1/": {"auth": auth}, "x.example": {"identitytoken": "t"}}})
    )
    assert credentials_of("registry-1.docker.io") == Credentials("ann", "se:cret")
    assert credentials_of("x.example") == Credentials("", "", "t")
    assert credentials_of("quay.io") is None
    for text in ("{ not json", "[]", '{"auths": null, "credHelpers": null}', '{"auths": {"quay.io": {"auth": null}}}'):
        config.write_text(text)
        assert credentials_of("quay.io") is None, text


def test_credentials_of_a_helper(config: Path) -> None:
    helper = config.with_name("docker-credential-vault")
    helper.write_text('#!/bin/sh\nread host\n[ "$host" = quay.io ] && echo \'{"Username": "bob", "Secret": "s"}\'\n')
    helper.chmod(0o755)
    config.write_text(json.dumps({"credHelpers": {"quay.io": "vault"}}))
    assert credentials_of("quay.io") == Credentials("bob", "s")
    config.write_text(json.dumps({"credsStore": "vault"}))
    assert credentials_of("quay.io") == Credentials("bob", "s") and credentials_of("other.example") is None
    config.write_text(json.dumps({"credsStore": "nowhere"}))
    assert credentials_of("quay.io") is None
