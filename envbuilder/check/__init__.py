"""The rules that check an environment against the compat tables, each with a stable code."""

from __future__ import annotations

from collections.abc import Mapping

# importing the modules registers their rules
from envbuilder.check import existence, imports, pairings, requirements
from envbuilder.check import matrix as _matrix
from envbuilder.check.finding import Finding, FindingSeverity, perhaps, worst_first
from envbuilder.check.rule import MATRIX_RULES, RULES, RuleContext, Wheels
from envbuilder.check.source_tree import SourceTree
from envbuilder.environment import Environment
from envbuilder.errors import MatrixError
from envbuilder.matrix import Matrix

__all__ = [
    "DOCS", "MATRIX_RULES", "RULES", "Finding", "FindingSeverity", "RuleContext", "SourceTree", "Wheels",
    "check_environment", "check_matrix", "perhaps", "refuse_errors", "worst_first",
]  # fmt: skip
_RULE_MODULES = (existence, imports, _matrix, pairings, requirements)
# the description of each rule by its code
DOCS = {rule.code: rule.doc for rule in RULES.values()} | {rule.code: rule.doc for rule in MATRIX_RULES.values()}


def check_environment(
    environment: Environment, wheels: Wheels | None = None, trees: Mapping[str, SourceTree] | None = None
) -> list[Finding]:
    """Return the findings of all rules on one environment, errors first."""
    context = RuleContext(environment, wheels, trees)
    return sorted((finding for rule in RULES.values() for finding in rule.check(context)), key=worst_first)


def check_matrix(matrix: Matrix) -> list[Finding]:
    """Return the findings on the matrices as a whole."""
    return sorted((finding for rule in MATRIX_RULES.values() for finding in rule.check(matrix)), key=worst_first)


def refuse_errors(environment: Environment) -> list[Finding]:
    """Raise the first error of an environment, which no option overrides; otherwise return its warnings."""
    findings = check_environment(environment)
    for finding in findings:
        if finding.severity == "error":
            raise MatrixError.of(finding.message, finding.where or environment.where, finding.hint)
    return [finding for finding in findings if finding.severity == "warning"]
