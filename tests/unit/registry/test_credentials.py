"""Docker's own files and helpers with entries of every kind: a password is found, or there is none."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from envbuilder.docker import which
from envbuilder.registry.credentials import Credentials, credentials_of
from tests.helpers.documents import changed, values

HOST = "registry.example"
AUTH = base64.b64encode(b"me:hush").decode()
CONFIG = {
    "auths": {HOST: {"auth": AUTH, "identitytoken": "t"}, f"https://{HOST}": {"username": "me", "password": "x"}},
    "credHelpers": {"other.example": "pass"},
    "currentContext": "x",
}
fuzzed = settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "CONTAINER_HOST"):
        # set first, so that values that the test sets are removed afterwards
        monkeypatch.setenv(name, "x")
        monkeypatch.delenv(name)
    return tmp_path


def helper(folder: Path, answer: str) -> None:
    """Install a program that answers this to docker's question for a password."""
    (folder / "answer").write_text(answer)
    program = folder / "docker-credential-fake"
    program.write_text(f"#!/bin/sh\nexec /bin/cat {folder}/answer\n")
    program.chmod(0o755)
    (folder / "config.json").write_text('{"credsStore": "fake"}')


def test_the_password_in_the_file(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps(CONFIG))
    assert credentials_of(HOST) == Credentials("me", "hush", "t")


def test_the_password_of_a_helper(folder: Path) -> None:
    helper(folder, '{"Username": "me", "Secret": "hush"}')
    assert credentials_of(HOST) == Credentials("me", "hush")
    helper(folder, '{"Username": "<token>", "Secret": "hush"}')
    assert credentials_of(HOST) == Credentials("", "", "hush")


@pytest.mark.parametrize("user", [5, None, ["me"], {"a": 1}, True, "\ud800"])
def test_an_entry_of_another_type_is_none(folder: Path, user: object) -> None:
    helper(folder, json.dumps({"Username": user, "Secret": "hush"}))
    assert credentials_of(HOST) is None
    helper(folder, json.dumps({"Username": "me", "Secret": user}))
    assert credentials_of(HOST) is None
    for entry in ({"username": user, "password": "hush"}, {"identitytoken": user}, {"auth": user}, user):
        (folder / "config.json").write_text(json.dumps({"auths": {HOST: entry}}))
        assert credentials_of(HOST) is None
    (folder / "config.json").write_text(json.dumps({"auths": {HOST: {"auth": AUTH}}, "credsStore": user}))
    assert credentials_of(HOST) == Credentials("me", "hush")


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"auths":' * 100_000, "\ufeff{}", '{"a": ' + "9" * 5000 + "}"], ids=len
)
def test_a_file_that_cannot_be_read_has_no_password(folder: Path, text: str) -> None:
    helper(folder, text)
    assert credentials_of(HOST) is None
    (folder / "config.json").write_text(text)
    assert credentials_of(HOST) is None
    (folder / "config.json").write_text(f'{{"currentContext": {text}')
    which.name_engine()


def test_a_helper_is_a_program_of_docker(folder: Path) -> None:
    (folder / "docker-credential-").mkdir()
    program = folder / "evil"
    program.write_text(f"#!/bin/sh\n: > {folder}/started\n")
    program.chmod(0o755)
    (folder / "config.json").write_text(json.dumps({"credsStore": f"/../../{folder}/evil"}))
    assert credentials_of(HOST) is None and not (folder / "started").exists()


@fuzzed
@given(changed(CONFIG))
def test_no_file_ends_in_a_traceback(folder: Path, document: object) -> None:
    (folder / "config.json").write_text(json.dumps(document))
    found = credentials_of(HOST)
    assert found is None or all(isinstance(item, (str, type(None))) for item in found)
    if found is not None:
        assert found.basic.isascii()


@fuzzed
@given(changed({"Name": "x", "Endpoints": {"docker": {"Host": "unix:///x"}}}) | values())
def test_no_context_ends_in_a_traceback(folder: Path, document: object) -> None:
    place = folder / "contexts/meta/2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    place.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text('{"currentContext": "x"}')
    (place / "meta.json").write_text(json.dumps(document))
    which.name_engine()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DOCKER_HOST", raising=False)
        which.name_engine()
