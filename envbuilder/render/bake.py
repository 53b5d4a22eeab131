"""A folder that `docker buildx bake` builds from: outgrowing one machine means BuildKit's own farm."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from envbuilder.plan import Plan
from envbuilder.render.dockerfile import render_dockerfile

BAKE_FILE = "docker-bake.json"


class Target(NamedTuple):
    plan: Plan
    tag: str
    platform: str


def bake_files(targets: Sequence[Target], secrets: Sequence[str] = ()) -> dict[str, str]:
    """The files of the folder by name: one for bake, and a Dockerfile and a lock for every environment."""
    files = {}
    described = {}
    for target in targets:
        name = target.plan.environment
        files[f"{name}.Dockerfile"] = render_dockerfile(target.plan)
        if target.plan.lock is not None:
            files[f"{name}.txt"] = target.plan.lock
        described[_name(name)] = {
            "context": ".",
            "dockerfile": f"{name}.Dockerfile",
            "tags": [target.tag],
            "platforms": [target.platform],
            **({"secret": list(secrets)} if secrets else {}),
        }
    document = {"group": {"default": {"targets": list(described)}}, "target": described}
    return {BAKE_FILE: json.dumps(document, indent=2) + "\n", **files}


def _name(identifier: str) -> str:
    """Bake reads a dot as the way into a target."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", identifier)
