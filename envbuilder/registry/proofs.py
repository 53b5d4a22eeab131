"""How far a published image is proven: by the report beside it, and for a pulled one by a note of this machine."""

from __future__ import annotations

import json

from envbuilder import paths
from envbuilder.errors import NetworkError
from envbuilder.files import digest_of_document, write_text
from envbuilder.language import tr
from envbuilder.registry.attach import VALIDATION, attached
from envbuilder.registry.client import Registry
from envbuilder.registry.published import Published


def published_level(registry: Registry, image: Published) -> str | None:
    """Return the level of the report beside an image, or None without one."""
    report = _report(registry, image)
    return str(report["proven"]) if report and report.get("proven") else None


def proof_of(registry: Registry, image: Published) -> str:
    """Return the level and the digest of the report beside an image in words."""
    report = _report(registry, image)
    if report is None:
        return tr("carries no proof")
    level, result = report.get("proven"), digest_of_document(report)
    return tr("proven at level {level}, the result is attached: {result}", level=level, result=result)


def note_level(image_id: str, level: str | None) -> None:
    """Keep the level of a pulled image, whose labels do not have it."""
    if level:
        write_text(paths.state_folder() / "proofs" / image_id.partition(":")[2], level)


def noted_level(image_id: str) -> str | None:
    note = paths.state_folder() / "proofs" / image_id.partition(":")[2]
    return note.read_text(encoding="utf-8") if note.is_file() else None


def _report(registry: Registry, image: Published) -> dict[str, object] | None:
    content = attached(registry, image.reference.repository, image.digest, VALIDATION)
    if content is None:
        return None
    try:
        report = json.loads(content)
    except ValueError:
        report = None
    if not isinstance(report, dict):
        raise NetworkError(tr("the result attached to {image} is not a report", image=image.reference))
    return report
