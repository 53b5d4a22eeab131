"""Prints, by the kind of fault, how often diagnose agrees with the maintainers about a report.

python -m tests.helpers.verdicts     the threads of the unit tests, and the samples of ../shared/corpus/env if any
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import yaml

from envbuilder.diagnose.judge import diagnose
from envbuilder.environment import Catalog
from envbuilder.matrix import load
from tests.helpers.corpus import FOLDER

THREADS = Path(__file__).resolve().parents[1] / "unit/diagnose/threads.yaml"
_LABELS = {
    "cann": "CANN: {}",
    "driver": "driver version: {}",
    "python": "Python version: {}",
    "arch": "Architecture: {}",
    "chip": "NPU type: {}",
}


class Case(NamedTuple):
    """A report, the codes of which at least one must be found (if any), and the errors that are correct."""

    name: str
    kind: str
    text: str
    codes: frozenset[str]
    allowed: frozenset[str]


class Verdict(NamedTuple):
    case: Case
    found: frozenset[str]
    errors: frozenset[str]

    @property
    def is_right(self) -> bool:
        return (not self.case.codes or bool(self.case.codes & self.found)) and not self.wrong

    @property
    def wrong(self) -> frozenset[str]:
        """Errors that a maintainer would call wrong."""
        return self.errors - self.case.allowed


def threads() -> Iterator[Case]:
    for item in yaml.safe_load(THREADS.read_text(encoding="utf-8")):
        codes = frozenset(item["codes"])
        text = f"{_installed(item['facts'])}\n{item['shows']}\n"
        yield Case(item["url"].removeprefix("https://github.com/"), item["kind"], text, codes, codes)


def samples() -> Iterator[Case]:
    """Yield the samples whose maintainers' verdict is known as codes."""
    folder = FOLDER / "env"
    index = folder / "INDEX.yaml"
    for item in yaml.safe_load(index.read_text(encoding="utf-8")) if index.exists() else ():
        if "codes" in item:
            text = (folder / item["file"]).read_text(encoding="utf-8")
            allowed = frozenset(item["errors_allowed"])
            yield Case(item["file"], item["sub_kind"], text, frozenset(item["codes"]), allowed)


def judged(catalog: Catalog, case: Case) -> Verdict:
    findings = diagnose(catalog, case.text).findings
    errors = frozenset(item.code for item in findings if item.severity == "error")
    return Verdict(case, frozenset(item.code for item in findings), errors)


def _installed(facts: Mapping[str, str]) -> str:
    return "\n".join(_LABELS.get(name, name + "=={}").format(value) for name, value in facts.items())


def main() -> None:
    catalog = Catalog(load(everything=True))
    by_kind: dict[str, list[Verdict]] = {}
    for case in (*threads(), *samples()):
        by_kind.setdefault(case.kind, []).append(judged(catalog, case))
    print(f"{'kind':<36} reports  right  wrong errors")
    for kind, verdicts in sorted(by_kind.items()):
        right, wrong = sum(item.is_right for item in verdicts), sum(bool(item.wrong) for item in verdicts)
        print(f"{kind:<36} {len(verdicts):>7}  {right:>5}  {wrong:>12}")
    everything = [item for verdicts in by_kind.values() for item in verdicts]
    right, wrong = sum(item.is_right for item in everything), sum(bool(item.wrong) for item in everything)
    print(f"{'all':<36} {len(everything):>7}  {right:>5}  {wrong:>12}")


if __name__ == "__main__":
    main()
