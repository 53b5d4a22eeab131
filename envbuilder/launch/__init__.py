"""Starts containers of environments, or prints them as a docker command, a compose file or a pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from envbuilder.launch.compose import compose
from envbuilder.launch.container import Launch
from envbuilder.launch.docker import shell
from envbuilder.launch.k8s import manifest

SHELL, CLUSTER = "docker", "k8s"
FORMS: Mapping[str, Callable[[Launch], str]] = {SHELL: shell, "compose": compose, CLUSTER: manifest}
