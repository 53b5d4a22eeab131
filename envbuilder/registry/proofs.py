"""How far an image is proven: by the report attached to a published one, and by a note for one that was pulled."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from envbuilder import paths
from envbuilder.files import digest_of_document, write_text
from envbuilder.language import tr
from envbuilder.registry.answers import Answer, document
from envbuilder.registry.attach import VALIDATION, attached
from envbuilder.registry.client import Registry
from envbuilder.registry.published import Published


class Proof(NamedTuple):
    """The report that is attached to a published image, or None."""

    report: dict[str, Any] | None

    @property
    def level(self) -> str | None:
        return Answer(self.report, VALIDATION).text("proven", "") or None if self.report else None

    def __str__(self) -> str:
        if self.report is None:
            return tr("carries no proof")
        result = digest_of_document(self.report)
        return tr("proven at level {level}, the result is attached: {result}", level=self.level, result=result)


def note_level(image_id: str, level: str | None) -> None:
    """Keep the level of a pulled image, whose labels do not contain it."""
    if level:
        write_text(_note(image_id), level)


def noted_level(image_id: str) -> str | None:
    note = _note(image_id)
    return note.read_text(encoding="utf-8") if note.is_file() else None


def _note(image_id: str) -> Path:
    return paths.state_folder() / "proofs" / image_id.partition(":")[2]


def proof_of(registry: Registry, image: Published) -> Proof:
    content = attached(registry, image.reference.repository, image.digest, VALIDATION)
    if content is None:
        return Proof(None)
    return Proof(document(content, str(image.reference)))
