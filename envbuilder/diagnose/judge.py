"""Finds what is wrong in a report: by its versions, its hardware, its failed imports, and the known symptoms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from envbuilder.check import Finding, perhaps, worst_first
from envbuilder.diagnose.closest import closest
from envbuilder.diagnose.facts import Facts, read
from envbuilder.diagnose.hardware import judge_hardware
from envbuilder.diagnose.imports import judge_imports
from envbuilder.diagnose.known_issues import judge_known_issues
from envbuilder.diagnose.pairs import judge_versions
from envbuilder.diagnose.report import PastedReport
from envbuilder.environment import Catalog, Environment
from envbuilder.language import tr

# what a maintainer needs first
_WANTED = {
    "torch_npu": "the output of `pip list`",
    "cann": "the output of `cat /usr/local/Ascend/*/latest/*/ascend_toolkit_install.info`",
    "chip": "the output of `npu-smi info`",
}
_ALWAYS = "the whole traceback, from its first line"
# with one of these, other findings are its consequences: the code, and what it explains
_EXPLAINS = {
    "torch-overwritten": {"torch-npu-torch"},
    "vllm-version-variable": {"engine-too-old", "engine-packaging"},
    "shadowed-package": {"engine-too-old", "engine-packaging"},
    "kernels-missing": {"plugin-not-loaded"},
    "cpu-index-missing": {"expected-conflict"},
}


@dataclass(frozen=True)
class Diagnosis:
    report: PastedReport
    facts: Facts
    closest: Environment | None
    findings: tuple[Finding, ...]


def diagnose(catalog: Catalog, text: str) -> Diagnosis:
    """Return the facts of a report, its faults, and the environment that it is closest to."""
    report = PastedReport.of(text)
    facts = read(catalog, report)
    # versions can be judged on any chip
    nearest = closest(catalog, facts)
    row = nearest or closest(catalog, facts.without("chip"))
    found = [
        *_symptoms(catalog, report),
        *judge_known_issues(catalog, facts, report),
        *judge_hardware(catalog, facts, report),
        *judge_imports(catalog, facts, report),
        *judge_versions(catalog, row, facts),
    ]
    findings = sorted(_one_per_cause(found, facts), key=worst_first)
    if not any(item.severity in {"error", "warning"} or item.source for item in findings):
        findings.append(_cannot_tell(facts))
    if report.left_out:
        findings.append(_too_long(*report.left_out))
    return Diagnosis(report, facts, nearest, tuple(findings))


def judge_packages(catalog: Catalog, text: str) -> list[Finding]:
    """Return what is wrong with the packages of a running machine, or nothing if it has none for NPUs."""
    found = diagnose(catalog, text)
    if not {"torch_npu", *(item.plugin for item in catalog.engines.values())} & found.facts.keys():
        return []
    wrong = [item for item in found.findings if item.severity in {"error", "warning"}]
    have = ", ".join(f"{name} {found.facts[name]}" for name in ("python", "torch", "torch_npu") if name in found.facts)
    return [replace(item, group="packages") for item in (wrong or [Finding("ok", have, code="packages")])]


def _one_per_cause(findings: list[Finding], facts: Facts) -> Iterator[Finding]:
    """Yield each finding once, without those that another explains.

    If no row supports the chip, and a tool has printed its name, other errors are only warnings.
    """
    codes = {item.code for item in findings if item.severity in {"error", "warning"}}
    explained = {code for cause in codes & _EXPLAINS.keys() for code in _EXPLAINS[cause]}
    is_unsupported = "chip" in facts and any(x.code == "unsupported-chip" and x.severity == "error" for x in findings)
    worst: dict[tuple[str, str], Finding] = {}
    for item in sorted(findings, key=worst_first):
        worst.setdefault((item.code, item.cause), item)
    for item in worst.values():
        if item.code not in explained:
            is_lowered = is_unsupported and item.severity == "error" and item.code != "unsupported-chip"
            yield replace(item, severity="warning") if is_lowered else item


def _cannot_tell(facts: Facts) -> Finding:
    seen = ", ".join(f"{name} {value}" for name, value in facts.items()) or tr("no versions")
    message = tr("cannot tell what is wrong: the report shows {seen}, and nothing in it is a known fault", seen=seen)
    missing = [tr(text) for name, text in _WANTED.items() if name not in facts][:2]
    wanted = tr(", ").join((*missing, tr(_ALWAYS)))
    hint = tr("send {wanted}; or run `envbuilder diagnose --live` on that machine", wanted=wanted)
    return Finding("info", message, hint, code="cannot-tell")


def _too_long(first: int, last: int) -> Finding:
    message = tr("the report is long: its lines {first} to {last} were not read", first=first, last=last)
    return Finding("info", message, tr("if the first error is among them, give a part around it"), code="long-report")


def _symptoms(catalog: Catalog, report: PastedReport) -> Iterator[Finding]:
    for symptom in catalog.symptoms:
        at = symptom.place_in(report.said)
        if at is None:
            continue
        cause = tr(" ".join(symptom.cause.split()))
        is_likely = not symptom.certain and symptom.severity != "info"
        yield Finding(
            "warning" if is_likely else symptom.severity, perhaps(cause) if is_likely else cause,
            tr(" ".join(symptom.remedy.split())), code=symptom.code, source=symptom.source, lines=(report.place(at),),
            ask=symptom.ask,
        )  # fmt: skip
