"""Compares training runs on NPUs with runs on GPUs: how far apart they are, and whether that is more than noise."""

from envbuilder.compare.judge import compare, compare_sides
from envbuilder.compare.result import Comparison, Metric, Throughput
from envbuilder.compare.runs import LoggedRun, open_run
from envbuilder.compare.sides import Side, open_sides

__all__ = [
    "Comparison",
    "LoggedRun",
    "Metric",
    "Side",
    "Throughput",
    "compare",
    "compare_sides",
    "open_run",
    "open_sides",
]
