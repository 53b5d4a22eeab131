"""Compares a training run on NPUs with one on GPUs: how far apart they are, and whether that is within the limits."""

from envbuilder.compare.judge import compare
from envbuilder.compare.result import Comparison, Metric, Throughput
from envbuilder.compare.runs import LoggedRun, open_run

__all__ = ["Comparison", "LoggedRun", "Metric", "Throughput", "compare", "open_run"]
