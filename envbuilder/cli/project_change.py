"""Changes the packages of a project, and locks it with the change."""

from __future__ import annotations

from collections.abc import Callable

from envbuilder.cli.project_argument import project_here
from envbuilder.cli.project_lock import LockArguments, lock_project, no_project
from envbuilder.errors import NoMatchError, UsageError
from envbuilder.files import changing
from envbuilder.language import tr
from envbuilder.project.file import text_of
from envbuilder.requirements import parse


def change_packages(
    given: LockArguments, packages: list[str], in_table: Callable[[str, list[str]], str],
    in_list: Callable[[str, list[str]], str],
) -> None:  # fmt: skip
    """Change the list of packages, in the project's file or in its file of requirements."""
    project = project_here()
    if project is None:
        raise no_project()
    for package in packages:
        try:
            parse(package)
        except ValueError as error:
            raise UsageError(str(error)) from error
    own = project.wanted
    file, change = (own.requirements, in_list) if own.requirements else (own.file, in_table)
    with changing(own.folder):
        try:
            text = change(text_of(file), packages)
        except LookupError as error:
            names = ", ".join(sorted(wish.requirement.name for wish in own.packages)) or tr("none")
            raise NoMatchError(
                tr("{file} has no package '{name}'", file=file, name=error.args[0]),
                hint=tr("it has: {names}", names=names),
            ) from error
        except ValueError as error:
            raise UsageError(
                tr("{file} cannot be changed: {reason}", file=file, reason=error), hint=tr("change it in an editor")
            ) from error
        lock_project(given, {file: text})
    given.talk.console.talk(tr("next: envbuilder build"))
