"""Starts containers of environments, or prints them as a docker command, a compose file, a pod, or for an editor."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from envbuilder.launch.compose import compose
from envbuilder.launch.container import Launch
from envbuilder.launch.devcontainer import devcontainer
from envbuilder.launch.docker import shell
from envbuilder.launch.k8s import manifest

SHELL, CLUSTER, EDITOR = "docker", "k8s", "devcontainer"
FORMS: Mapping[str, Callable[[Launch], str]] = {
    SHELL: shell,
    "compose": compose,
    CLUSTER: manifest,
    EDITOR: devcontainer,
}
