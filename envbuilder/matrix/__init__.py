"""From a folder of YAML files to a Matrix: strict, all problems at once, nothing read that is not needed."""

from envbuilder.matrix.load import Matrix, load

__all__ = ["Matrix", "load"]
