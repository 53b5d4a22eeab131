"""Containers that envbuilder starts are removed, however their start ends."""

from __future__ import annotations

from unittest.mock import Mock

import docker
import pytest

from envbuilder.docker.container import started
from envbuilder.errors import EnvbuilderError


def test_an_interrupted_creation_leaves_no_container() -> None:
    """The engine has the request, and makes the container a little later."""
    made = Mock()
    client = Mock()
    client.containers.run.side_effect = KeyboardInterrupt
    client.containers.get.side_effect = [docker.errors.NotFound("not yet"), docker.errors.NotFound("not yet"), made]
    with pytest.raises(KeyboardInterrupt), started(client, "image", None, (), (), ()):
        pass
    name = client.containers.run.call_args.kwargs["name"]
    assert {call.args for call in client.containers.get.call_args_list} == {(name,)}
    made.remove.assert_called_once_with(force=True)


def test_a_container_that_the_engine_refuses_is_not_waited_for() -> None:
    client = Mock()
    client.containers.run.side_effect = docker.errors.APIError("no")
    with pytest.raises(EnvbuilderError), started(client, "image", None, (), (), ()):
        pass
    client.containers.get.assert_not_called()
