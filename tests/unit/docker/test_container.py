"""The containers that envbuilder starts for its own use."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from envbuilder.docker.engine import Docker
from tests.helpers.web_server import Handler, body_of, reply, serving


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[dict[str, Any]]]:
    """Return the containers that an engine creates for a user whose configuration has a proxy for containers."""
    proxies = {"default": {"httpProxy": "http://me:hush@proxy.example:1"}}
    (tmp_path / "config.json").write_text(json.dumps({"proxies": proxies}))
    collected: list[dict[str, Any]] = []

    def engine(handler: Handler, _: int) -> None:
        if handler.path.endswith("/version"):
            reply(handler, 200, '{"ApiVersion": "1.41"}')
        elif "/archive" in handler.path:
            content = io.BytesIO()
            with tarfile.open(fileobj=content, mode="w") as archive:
                archive.addfile(tarfile.TarInfo("file"))
            reply(handler, 200, content.getvalue(), X_Docker_Container_Path_Stat="e30=")
        elif "/containers/create" in handler.path:
            collected.append(json.loads(body_of(handler)))
            reply(handler, 201, '{"Id": "x"}')
        elif handler.command == "DELETE":
            reply(handler, 204)
        else:
            reply(handler, 200, '{"Id": "x"}')

    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.delenv("DOCKER_TLS_VERIFY", raising=False)
    with serving(engine) as server:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://{server.host}")
        yield collected


def test_the_proxy_of_a_user_is_not_passed_to_these_containers(made: list[dict[str, Any]]) -> None:
    engine = Docker()
    with engine.container("image"):
        pass
    engine.read("image", "/some/file")
    assert [item["Image"] for item in made] == ["image", "image"]
    assert "hush" not in json.dumps(made)
