"""Resolves the ranges of a drafted row: what the lock chooses replaces the guesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from envbuilder.environment import Catalog, Filters
from envbuilder.lock.index import Index
from envbuilder.lock.uv import make_lock
from envbuilder.matrix import Matrix, load
from envbuilder.requirements import normalize
from envbuilder.upstream.choose import Chosen
from envbuilder.upstream.draft import Drafted
from envbuilder.upstream.row import row_text
from envbuilder.upstream.write import on_trial, texts

Hardware = Mapping[str, Sequence[str]]


def resolved(
    matrix: Matrix, folder: Path, drafts: Sequence[Drafted], hardware: Hardware, index: Index
) -> list[Drafted]:  # fmt: skip
    """Return the drafts with the versions that uv chooses in place of those guessed from ranges."""
    open_ = [drafted._replace(pins=_decided(drafted)) for drafted in drafts]
    with on_trial(folder, texts(matrix, open_, row_text(matrix, open_, hardware))) as trial:
        catalog = Catalog(load(trial, everything=True))
        return [_with_versions(drafted, _versions(catalog, drafted, hardware, index)) for drafted in drafts]


def _decided(drafted: Drafted) -> dict[str, Chosen]:
    return {name: pin for name, pin in drafted.pins.items() if pin.status != "guessed" or pin.commit}


def _versions(catalog: Catalog, drafted: Drafted, hardware: Hardware, index: Index) -> Mapping[str, str]:
    """Return the versions of the packages in a lock of the row, by normalized name."""
    target = drafted.target
    first = hardware[target.engine][0]
    filters = Filters(target.framework, target.branch, target.engine, first)
    environment = catalog.select((), filters)[0]
    return {normalize(name): version for name, version in make_lock(environment, index).versions.items()}


def _with_versions(drafted: Drafted, locked: Mapping[str, str]) -> Drafted:
    because = f"resolved by the lock, with packages until {drafted.until}"
    pins = {
        name: pin._replace(version=locked[_locked_name(drafted, name)], because=because)
        if pin.status == "guessed" and not pin.commit and _locked_name(drafted, name) in locked
        else pin
        for name, pin in drafted.pins.items()
    }
    return drafted._replace(pins=pins)


def _locked_name(drafted: Drafted, name: str) -> str:
    component = drafted.components.get(name)
    return normalize(component.index_name if component else name)
