"""Tags that several machines extend at once: a list keeps what each of them has added."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from envbuilder.errors import NetworkError
from envbuilder.registry.client import INDEX_TYPES, Registry
from tests.helpers.web_server import Handler, body_of, reply, serving

Store = dict[str, str]


@contextmanager
def storing(store: Store) -> Iterator[Registry]:
    """Serve a registry of one tag."""

    def answer(handler: Handler, number: int) -> None:
        if handler.command == "PUT":
            store["tag"] = body_of(handler).decode()
            reply(handler, 201)
        elif handler.path.endswith("/manifests/tag") and "tag" in store:
            reply(handler, 200, store["tag"], INDEX_TYPES[0])
        else:
            reply(handler, 200 if handler.path == "/v2/" else 404)

    with serving(answer) as server:
        yield Registry(server.host, back_off=0)


def adding(name: str, after: Callable[[], None] = lambda: None) -> Callable[[dict[str, Any] | None], bytes | None]:
    """Return a change that adds a name; `after` runs between reading and writing."""

    def change(document: dict[str, Any] | None) -> bytes | None:
        after()
        names = document["names"] if document else []
        return None if name in names else json.dumps({"names": [*names, name]}).encode()

    return change


def names(store: Store) -> list[str]:
    found: list[str] = json.loads(store["tag"])["names"]
    return found


def test_a_tag_is_made_and_extended() -> None:
    store: Store = {}
    with storing(store) as registry:
        for name in ("one", "two", "two"):
            registry.amend("x", "tag", INDEX_TYPES[0], adding(name))
    assert names(store) == ["one", "two"]


def test_a_write_between_reading_and_writing_is_kept() -> None:
    store: Store = {}
    others = iter(["another"])

    def another() -> None:
        for name in others:
            store["tag"] = json.dumps({"names": [name]})

    with storing(store) as registry:
        registry.amend("x", "tag", INDEX_TYPES[0], adding("own", another))
    assert names(store) == ["another", "own"]


def test_a_tag_that_changes_at_every_attempt_is_an_error() -> None:
    store: Store = {}
    count = iter(range(100))

    def another() -> None:
        store["tag"] = json.dumps({"names": [str(next(count))]})

    with storing(store) as registry, pytest.raises(NetworkError, match="changed by others all the time"):
        registry.amend("x", "tag", INDEX_TYPES[0], adding("own", another))
    assert "own" not in names(store), "nothing of another machine was replaced"
