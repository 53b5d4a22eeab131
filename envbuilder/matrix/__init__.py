"""From a folder of YAML files to a Matrix: strict, all problems at once, only what is needed is read."""

from envbuilder.matrix.load import load
from envbuilder.matrix.matrix import Matrix

__all__ = ["Matrix", "load"]
