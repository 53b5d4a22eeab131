"""Keeps wheels that were built from source, each under a key of all inputs of its build.

The key covers the base image, every command of the build (with the SOC, the flags, the patches and the system
packages), the locked packages of the build (with torch) and the source archive. Nothing else rebuilds a wheel.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envbuilder.files import digest_of_document, own_folder, sha256_of
from envbuilder.plan import Plan, SourceArchive, Stage
from envbuilder.plan.plan import SOURCES
from envbuilder.render import commands_of

_INPUTS = "inputs.json"


def inputs_of(
    plan: Plan, stage: Stage, base_id: str, instructions: str, sources: Mapping[str, SourceArchive]
) -> dict[str, Any]:
    """Return the inputs of a stage's wheels; `instructions` are those of the CPU that a compiler may have used."""
    layers = [layer for item in plan.lineage(stage) for layer in item.layers]
    read = {path for layer in layers for path in layer.reads}
    used = (item for item in sources.values() if f"{SOURCES}/{item.archive.name}" in read)
    return {
        "base": base_id,
        "instructions": instructions,
        "commands": [commands_of(layer) for layer in layers],
        "files": {path: plan.files[path].splitlines() for path in sorted(read) if path in plan.files},
        "sources": {item.component: item.sha256 for item in used},
    }


class WheelCache:
    """A folder of kept wheels, which machines may share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, name: str, inputs: Mapping[str, Any]) -> list[Path]:
        """Return the wheels made from these inputs; none if they are missing or were changed."""
        place = self._place(name, inputs)
        try:
            kept: dict[str, str] = json.loads((place / _INPUTS).read_text(encoding="utf-8"))["wheels"]
            wheels = [place / file for file in sorted(kept)]
            return wheels if all(sha256_of(wheel) == kept[wheel.name] for wheel in wheels) else []
        except (OSError, ValueError, KeyError):
            return []

    def keep(self, name: str, inputs: Mapping[str, Any], wheels: list[Path]) -> None:
        """Copy wheels into the cache, under the key of their inputs."""
        if self.find(name, inputs):
            return  # another build has kept them
        if not self._folder.is_dir():
            self._folder.mkdir(parents=True, exist_ok=True)
            self._folder.chmod(0o755)
        place = self._place(name, inputs)
        try:
            with own_folder(self._folder, ".new-") as folder:
                for wheel in wheels:
                    shutil.copyfile(wheel, folder / wheel.name)
                record = {**inputs, "wheels": {wheel.name: sha256_of(wheel) for wheel in wheels}}
                (folder / _INPUTS).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
                # readable for all who share the cache, whatever the umask is
                for file in folder.iterdir():
                    file.chmod(0o644)
                folder.chmod(0o755)
                # renamed, so that it is never seen incomplete; a folder that was in its place is damaged
                shutil.rmtree(place, ignore_errors=True)
                folder.rename(place)
        except OSError:
            if not self.find(name, inputs):
                raise

    def _place(self, name: str, inputs: Mapping[str, Any]) -> Path:
        key = digest_of_document(inputs).removeprefix("sha256:")
        return self._folder / f"{name.removeprefix('wheels-')}-{key[:32]}"
