"""Writes a folder for `docker buildx bake`, to build several environments on a remote builder."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from envbuilder.plan import Plan
from envbuilder.render.dockerfile import build_context

BAKE_FILE = "docker-bake.json"


class BakeTarget(NamedTuple):
    plan: Plan
    tag: str
    platform: str


def bake_files(targets: Sequence[BakeTarget], secrets: Sequence[str] = ()) -> dict[str, str]:
    """Return the files of the folder by path: the bake file, and a build context for every environment."""
    files: dict[str, str] = {}
    descriptions = {}
    for target in targets:
        name = target.plan.environment
        files |= {f"{name}/{path}": text for path, text in build_context(target.plan).items()}
        descriptions[_name(name)] = {
            "context": name,
            "tags": [target.tag],
            "platforms": [target.platform],
            **({"secret": list(secrets)} if secrets else {}),
        }
    document = {"group": {"default": {"targets": list(descriptions)}}, "target": descriptions}
    return {BAKE_FILE: json.dumps(document, indent=2) + "\n", **files}


def _name(identifier: str) -> str:
    """Return the name of a target, which must not contain a dot."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", identifier)
