"""Reads a folder of YAML files into a Matrix: strictly, reporting all problems at once, decoding files when needed."""

from envbuilder.matrix.load import load
from envbuilder.matrix.matrix import Matrix

__all__ = ["Matrix", "load"]
