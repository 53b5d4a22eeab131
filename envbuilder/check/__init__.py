"""The rules: small functions over one environment and the known world, each with a stable code."""

from __future__ import annotations

from collections.abc import Iterable

# importing the modules enters their rules in the table
from envbuilder.check import existence as _existence
from envbuilder.check import matrix as _matrix
from envbuilder.check import pairings as _pairings
from envbuilder.check import requirements as _requirements
from envbuilder.check.rule import MATRIX_RULES, RULES, Context, Finding, Wheels
from envbuilder.environment.resolve import Environment
from envbuilder.matrix import Matrix

__all__ = ["DOCS", "MATRIX_RULES", "RULES", "Context", "Finding", "Wheels", "check_environment", "check_matrix"]
# what each code is about
DOCS = {rule.code: rule.doc for rule in RULES.values()} | {rule.code: rule.doc for rule in MATRIX_RULES.values()}
_RULE_MODULES = (_existence, _matrix, _pairings, _requirements)
_ORDER = {"error": 0, "warning": 1, "info": 2}


def check_environment(matrix: Matrix, environment: Environment, wheels: Wheels | None = None) -> list[Finding]:
    """What every rule says of one environment, errors first."""
    context = Context(matrix, environment, wheels)
    return _sorted(finding for rule in RULES.values() for finding in rule.check(context))


def check_matrix(matrix: Matrix) -> list[Finding]:
    """What is wrong with the matrices themselves rather than with one environment."""
    return _sorted(finding for rule in MATRIX_RULES.values() for finding in rule.check(matrix))


def _sorted(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: _ORDER[finding.severity])
