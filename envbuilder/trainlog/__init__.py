"""Reads training logs and metric files into the metrics of their steps."""

from envbuilder.trainlog.console import read_steps
from envbuilder.trainlog.read import read_log, read_path
from envbuilder.trainlog.step import Log, LoggedStep

__all__ = ["Log", "LoggedStep", "read_log", "read_path", "read_steps"]
