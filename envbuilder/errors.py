"""The exceptions of envbuilder.

Library code raises them; only the command line prints them and exits.
"""

from __future__ import annotations

from typing import NamedTuple


class Where(NamedTuple):
    """A place in a file; lines and columns are counted from one, as in editors."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class EnvbuilderError(Exception):
    """An error with a message, a hint and the place of the problem."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None, where: Where | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where


class UsageError(EnvbuilderError):
    """The arguments of a command are invalid or contradict each other."""

    exit_code = 2
    meaning = "the arguments or settings are wrong"


class Problem(NamedTuple):
    """A problem at one place in the matrices."""

    where: Where
    message: str


class MatrixError(EnvbuilderError):
    """The matrices are invalid, or the requested combination is incompatible. `problems` has all that were found."""

    exit_code = 3
    meaning = "the matrices are invalid, or versions cannot work together"

    def __init__(self, problems: list[Problem], *, hint: str | None = None) -> None:
        self.problems = sorted(problems, key=lambda problem: problem.where)
        first = self.problems[0]
        super().__init__(first.message, hint=hint, where=first.where)

    @classmethod
    def of(cls, message: str, where: Where, hint: str | None = None) -> MatrixError:
        return cls([Problem(where, message)], hint=hint)


class NoMatchError(EnvbuilderError):
    """Nothing in the matrices matches the request."""

    exit_code = 4
    meaning = "nothing matches the names that were given"


class HostError(EnvbuilderError):
    """This machine does not meet the requirements of the command."""

    exit_code = 5
    meaning = "this machine lacks something"


class ValidationError(EnvbuilderError):
    """A validation failed."""

    exit_code = 6
    meaning = "a validation or comparison failed"


class InconclusiveError(EnvbuilderError):
    """A comparison neither passed nor failed."""

    exit_code = 8
    meaning = "a comparison shows nothing: too few steps, or nothing was learned"


class NetworkError(EnvbuilderError):
    """A server cannot be reached or refuses access."""

    exit_code = 7
    meaning = "a server cannot be reached, or refuses"
