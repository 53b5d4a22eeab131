"""Selects the environments that a user names; a name that matches none is an error with the nearest names."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from envbuilder import versions
from envbuilder.environment.coordinates import (
    Coordinates,
    Filters,
    environments,
    has,
    names_of,
    product_named,
    products_of,
    spelled,
)
from envbuilder.environment.proof import proof_of
from envbuilder.errors import NoMatchError, UsageError
from envbuilder.language import did_you_mean, tr
from envbuilder.matrix import Matrix

# options whose name differs from that of their dimension
_OPTIONS = {"hardware": "hw"}


def select(matrix: Matrix, patterns: Sequence[str] = (), filters: Filters | None = None) -> list[Coordinates]:
    """Return all environments that match a pattern (any, without patterns) and the filters.

    A pattern is an identifier or a glob. No match is an error, so that a typo never gives an empty result.
    """
    found = matching(matrix, patterns, filters)
    if not found:
        raise _no_combination(matrix, filters or Filters(), " ".join(patterns))
    return found


def matching(matrix: Matrix, patterns: Sequence[str] = (), filters: Filters | None = None) -> list[Coordinates]:
    """Return the same as `select`, but an empty list if no environment matches the filters."""
    everything = environments(matrix)
    named: list[Coordinates] = []
    for pattern in patterns:
        found = [item for item in everything if fnmatch.fnmatchcase(item.id, pattern)]
        found = found or list(_of_product(matrix, everything, pattern))
        if not found:
            raise _no_such(matrix, pattern, everything)
        named += found
    chosen = list(dict.fromkeys(named)) if patterns else everything
    if filters is None:
        return chosen
    admitted = [item for item in chosen if filters.admits(item, matrix)]
    product, system = product_named(matrix, filters.hardware), filters.os
    return [item._replace(product=product or item.product, system=system) for item in admitted]


def _of_product(matrix: Matrix, everything: Sequence[Coordinates], pattern: str) -> Iterator[Coordinates]:
    """Yield the environments of an identifier with a product in place of the hardware."""
    for name, hardware in matrix.hardware.items():
        for product in hardware.products:
            wanted = pattern.replace(f"-{product}-", f"-{name}-")
            if wanted != pattern:
                found = (item for item in everything if fnmatch.fnmatchcase(item.id, wanted))
                yield from (
                    item._replace(product=product) for item in found if product in products_of(hardware, item.arch)
                )


def pick(matrix: Matrix, pattern: str | None = None, filters: Filters | None = None) -> Coordinates:
    """Return the one environment that matches; the defaults of the matrix complete the filters."""
    candidates = select(matrix, [pattern] if pattern else (), filters or Filters())
    if pattern and len(candidates) > 1:
        number, named = len(candidates), [item.id for item in candidates]
        raise UsageError(
            tr("'{pattern}' names {number} environments; this command takes one", pattern=pattern, number=number),
            hint=tr("one of: {names}", names=", ".join([*named[:4], *(["..."] if named[4:] else [])])),
        )
    if pattern:
        return candidates[0]
    # hardware that a glob admits too comes after the default
    preferred = matrix.root.defaults.hardware
    found = [item for item in candidates if item.hardware == preferred] or candidates
    candidates = [item for item in found if item.hardware == found[0].hardware]
    # arches are in the order of the file of the hardware, the default first
    candidates = [item for item in candidates if item.arch == candidates[0].arch]
    return max(candidates, key=lambda item: rank(matrix, item))


class Rank(NamedTuple):
    """How good an environment is as a default, the most important property first."""

    is_default_framework: bool
    is_locked: bool
    # whether something was trained in it, and whether only in that for another architecture
    is_proven: bool
    is_proven_elsewhere: bool
    version: versions.Key
    is_default_engine: bool


def rank(matrix: Matrix, coordinates: Coordinates) -> Rank:
    proof, defaults = proof_of(matrix, coordinates), matrix.root.defaults
    return Rank(
        is_default_framework=coordinates.framework == defaults.framework,
        is_locked=matrix.locks.folder(coordinates.folder) is not None,
        is_proven=proof is not None and proof.arch == coordinates.arch,
        is_proven_elsewhere=proof is not None and proof.arch != coordinates.arch,
        version=versions.key(coordinates.branch),
        is_default_engine=coordinates.engine == defaults.engine,
    )


def _no_such(matrix: Matrix, pattern: str, everything: Sequence[Coordinates]) -> NoMatchError:
    import difflib

    parts = spelled(pattern).split("-")
    # an incomplete identifier, or its parts in another order, before one that is spelled alike
    shared = [item for item in everything if all(part in item.id for part in parts)]
    identifiers = [item.id for item in everything]
    near = _best(matrix, shared) or difflib.get_close_matches(pattern, identifiers, n=3, cutoff=0.3) or identifiers[-3:]
    names = ", ".join(near)
    hint = (
        tr(
            "nearest: {names}; `envbuilder list '*{pattern}*'` lists all {number}",
            names=names,
            pattern=pattern,
            number=len(shared),
        )
        if len(shared) > len(near)
        else tr("nearest: {names}", names=names)
    )
    return NoMatchError(tr("no environment is named '{pattern}'", pattern=pattern), hint=hint)


def _best(matrix: Matrix, found: Sequence[Coordinates]) -> list[str]:
    """Return the identifiers of the three newest environments, those for NPUs and of the default engine first."""

    def order(item: Coordinates) -> tuple[object, ...]:
        known = rank(matrix, item)
        is_for_npus = matrix.hardware[item.hardware].has_npus
        return is_for_npus, known.is_locked, known.is_default_framework, known.version, known.is_default_engine

    return [item.id for item in sorted(found, key=order, reverse=True)[:3]]


def _no_combination(matrix: Matrix, filters: Filters, patterns: str) -> NoMatchError:
    everything, given = environments(matrix), filters.given()
    for dimension, wanted in given.items():
        if not any(has(matrix, item, dimension, wanted) for item in everything):
            return _unknown(matrix, dimension, wanted)
    options = " ".join(f"--{_OPTIONS.get(name, name)} {value}" for name, value in given.items())
    score = {item: sum(has(matrix, item, name, value) for name, value in given.items()) for item in everything}
    near = [item.id for item in sorted(everything, key=lambda item: -score[item])[:3]]
    return NoMatchError(
        tr("no environment fits {options}", options=" ".join(filter(None, (patterns, options)))),
        hint=tr("nearest: {names}", names=", ".join(near)),
    )


def _unknown(matrix: Matrix, dimension: str, wanted: str) -> NoMatchError:
    values = names_of(matrix, dimension)
    guess = did_you_mean(spelled(wanted), [name for key, others in values.items() for name in (key, *others)])
    names = ", ".join(values)
    known = (
        tr("known: {names}; `envbuilder hardware` lists their products", names=names)
        if dimension == "hardware"
        else tr("known: {names}", names=names)
    )
    message = tr("no environment has the {dimension} '{wanted}'", dimension=dimension, wanted=wanted)
    return NoMatchError(message, hint=guess + known)
