"""The one exception root. Library code raises these; only the command line prints them and exits."""

from __future__ import annotations

from typing import NamedTuple


class Where(NamedTuple):
    """A place in a file, counted from one, as editors do."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class EnvbuilderError(Exception):
    """What went wrong, where, and what to do about it."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str | None = None, where: Where | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.where = where


class UsageError(EnvbuilderError):
    """The command was called in a way that cannot mean anything."""

    exit_code = 2


class Problem(NamedTuple):
    """One thing wrong with one place of the matrices."""

    where: Where
    message: str


class MatrixError(EnvbuilderError):
    """The matrices cannot be read, or what was asked of them is incompatible. Carries every problem found."""

    exit_code = 3

    def __init__(self, problems: list[Problem], *, hint: str | None = None) -> None:
        self.problems = sorted(problems, key=lambda problem: problem.where)
        first = self.problems[0]
        super().__init__(first.message, hint=hint, where=first.where)

    @classmethod
    def of(cls, message: str, where: Where, hint: str | None) -> MatrixError:
        return cls([Problem(where, message)], hint=hint)


class NoMatchError(EnvbuilderError):
    """Nothing in the matrices fits what was asked for."""

    exit_code = 4


class HostError(EnvbuilderError):
    """This machine is not fit for what was asked."""

    exit_code = 5


class ValidationError(EnvbuilderError):
    """Something was proven not to work."""

    exit_code = 6


class NetworkError(EnvbuilderError):
    """Something outside could not be reached, or would not let us in."""

    exit_code = 7
