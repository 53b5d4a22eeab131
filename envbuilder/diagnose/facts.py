"""Reads the facts of an environment from a report: for each, the most trusted claim wins, then the first one."""

from __future__ import annotations

import re

from envbuilder import versions
from envbuilder.diagnose.claims import READERS, Claim, Words, mentioned, words_of
from envbuilder.diagnose.report import PastedReport
from envbuilder.environment import Catalog


class Facts(dict[str, str]):
    """The facts that a report states, by name."""

    # the line of each fact, counted from 0
    lines: dict[str, int]
    # the facts for which the report has two values
    unsure: frozenset[str]
    # the components that the report names, with a version or without
    mentioned: frozenset[str]

    def without(self, name: str) -> Facts:
        found = Facts({key: value for key, value in self.items() if key != name})
        found.lines, found.unsure, found.mentioned = self.lines, self.unsure, self.mentioned
        return found


def keys(catalog: Catalog) -> list[str]:
    """Return the facts that every diagnosis lists, found or not."""
    engines = [name for item in catalog.engines.values() for name in (item.engine, item.plugin)]
    vendors = ("python", "torch", "torch_npu", "cann", "driver")
    return [*vendors, *engines, "transformers", "triton", "triton_ascend", "arch", "chip"]


def read(catalog: Catalog, report: PastedReport) -> Facts:
    """Return every fact that a report states about the present."""
    words, best = words_of(catalog), dict[str, Claim]()
    found = [claim for reader in READERS for claim in reader(report.present, words)]
    for claim in found:
        if claim.fact not in best or claim.rank < best[claim.fact].rank:
            best[claim.fact] = claim
    facts = Facts({claim.fact: _normalized(claim, words) for claim in best.values()})
    facts.lines = {claim.fact: report.place(claim.at) for claim in best.values()}
    facts.mentioned = mentioned(report.said, words)
    facts.unsure = frozenset(
        claim.fact
        for claim in found
        if claim.rank == best[claim.fact].rank and not _agree(_normalized(claim, words), facts[claim.fact])
    )
    return facts


def _agree(one: str, other: str) -> bool:
    """Return whether two values can be the same: people leave out the end of a version."""
    short, long = sorted((versions.public(one).lower(), versions.public(other).lower()), key=len)
    return long.startswith(short)


def _normalized(claim: Claim, words: Words) -> str:
    """Return a version in the spelling of its publisher."""
    if claim.fact == "cann":
        return re.sub(r"[. ]*rc[. ]*(?=\d)", ".RC", claim.value, flags=re.IGNORECASE)
    if claim.fact in words.patterns:
        return re.sub(r"(?<=\d)\.?(post|dev)(?=\d)", r".\1", claim.value.replace(" ", ""))
    return claim.value
