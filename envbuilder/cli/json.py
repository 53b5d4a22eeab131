"""Converts environments and findings to the JSON that scripts read. Fields may be added, but do not change."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from envbuilder.matrix.evidence import DETAILS

if TYPE_CHECKING:
    from envbuilder.check import Finding
    from envbuilder.diagnose.report import PastedReport
    from envbuilder.environment import Catalog, Environment
    from envbuilder.environment.cascade import ResolvedList, ResolvedPin, ResolvedSetting
    from envbuilder.matrix.model import Algorithm, Evidence, KnownIssue
    from envbuilder.plan import Plan

SCHEMA_VERSION = 1


def document(**content: Any) -> dict[str, Any]:
    return {"schema_version": SCHEMA_VERSION, **content}


def summary(environment: Environment) -> dict[str, Any]:
    """Return the data of `list` about an environment."""
    return {
        "id": environment.id,
        **environment.coordinates._asdict(),
        "cpu_only": environment.hardware.cpu_only,
        "pins": {name: pin.full for name, pin in environment.pins.items()},
        "least_driver": least.version if (least := environment.least_driver) else None,
        "evidence": environment.proven,
        "depth": environment.proof.depth if environment.proof else None,
        "failure": environment.failure and dict(environment.failure.__dict__),
    }


def details(environment: Environment, plan: Plan) -> dict[str, Any]:
    """Return the data of `show` about an environment."""
    support = environment.support
    limits = environment.framework.thresholds
    return {
        **summary(environment),
        "title": plan.title,
        "date": environment.branch.date,
        "base_image": plan.base_image,
        "pins": {name: _pin(pin) for name, pin in environment.pins.items()},
        "variables": {
            name: {"value": item.value, "source": item.source, "because": item.because}
            for name, item in environment.variables.items()
        },
        "lists": {name: list(item.values) for name, item in environment.lists.items()},
        "layers": [layer.title for layer in plan.layers],
        "left_out": [asdict(item) for item in plan.left_out],
        "known_issues": [_issue(issue) for issue in environment.known_issues],
        "algorithms": [_algorithm(item) for item in support.algorithms],
        "unsupported_features": dict(support.unsupported_features),
        "unsupported_packages": {name: item.reason for name, item in support.unsupported_packages.items()},
        "thresholds": limits and {"loss_percent": limits.loss_percent, "reward_percent": limits.reward_percent},
        "history": [
            {"date": item.date, "source": item.source, "documented": dict(item.documented), "note": item.note}
            for item in environment.framework.history
        ],
        "evidence": [_evidence(item) for item in environment.evidence],
        "project": _project(environment),
    }


def twin(catalog: Catalog, environment: Environment) -> dict[str, Any] | None:
    """Return the environment of the other kind of device, and the pins that differ from it."""
    from envbuilder.environment.twins import differences, twin_of

    other = twin_of(catalog, environment)
    if other is None:
        return None
    differing = {item.name: {"here": item.here, "there": item.there} for item in differences(environment, other)}
    return {"id": other.id, "differing": differing}


def _project(environment: Environment) -> dict[str, Any] | None:
    """Return what the project of this folder adds to the row."""
    own = environment.additions
    if own is None:
        return None
    return {
        "name": own.project,
        "requirements": list(own.requirements),
        "packages": own.versions,
        "moved": {name: {"row": pin.full, "project": environment.pins[name].full} for name, pin in own.moved.items()},
        "system_packages": list(own.system_packages),
        "variables": dict(own.variables),
        "files": dict(own.files),
        "sources": {name: item.shown for name, item in own.sources.items()},
        "lock": own.lock_digest,
        "evidence_of_row_holds": not own.moved and not own.sources,
    }


def _evidence(item: Evidence) -> dict[str, Any]:
    names = ("level", "date", "machine", *DETAILS)
    return {name: value for name in names if (value := getattr(item, name)) is not None}


def _pin(pin: ResolvedPin) -> dict[str, Any]:
    return {
        "version": pin.full,
        "documented": pin.documented,
        "because": pin.because,
        "source": pin.source,
        "where": str(pin.where),
    }


def _algorithm(item: Algorithm) -> dict[str, Any]:
    return {
        "name": item.name,
        "status": item.status,
        "error_percent": item.error_percent,
        "measured_on": dict(item.measured_on),
        "devices": list(item.devices),
        "source": item.source,
    }


def _issue(issue: KnownIssue) -> dict[str, Any]:
    return {
        "what": " ".join(issue.what.split()),
        "workaround": issue.workaround,
        "variables": {name: item.value for name, item in issue.variables.items()},
        "opt_in": issue.opt_in,
        "source": issue.source,
    }


def reason(value: ResolvedPin | ResolvedSetting | ResolvedList) -> dict[str, Any]:
    """Return the data of `show --why` about a value."""
    from envbuilder.cli.markdown import address

    names = ("version", "value", "values", "documented", "because", "source")
    found: dict[str, Any] = {name: getattr(value, name) for name in names if hasattr(value, name)}
    if "source" in found:
        found["address"] = address(found["source"])
    trail = [{"layer": step.layer, "value": step.text, "where": str(step.where)} for step in value.trail]
    return {**found, "trail": trail}


def finding(item: Finding) -> dict[str, Any]:
    """Return the data of `check` about a finding."""
    return {
        "code": item.code,
        "severity": item.severity,
        "message": item.message,
        "hint": item.hint,
        "environment": item.environment,
        "components": list(item.components),
        "where": str(item.where),
    }


def machine_check(item: Finding) -> dict[str, Any]:
    """Return the data of `doctor` about a finding."""
    return {
        "name": item.code,
        "group": item.group,
        "severity": item.severity,
        "message": item.message,
        "remedy": item.hint,
    }


def diagnosis(item: Finding, report: PastedReport) -> dict[str, Any]:
    """Return the data of `diagnose` about a finding."""
    return {
        "code": item.code,
        "severity": item.severity,
        "message": item.message,
        "remedy": item.hint,
        "source": item.source,
        "lines": [report.quoted(place)._asdict() for place in item.lines],
        "ask": item.ask,
    }
