"""Proves that an environment holds what its row pins, can be imported, and trains."""

from __future__ import annotations

from envbuilder.validate.levels import ValidationOptions
from envbuilder.validate.report import LEVELS, Report, TrainingResult, ValidationLevel

__all__ = ["LEVELS", "Report", "TrainingResult", "ValidationLevel", "ValidationOptions"]
