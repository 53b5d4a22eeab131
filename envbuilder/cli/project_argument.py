"""The project of the folder in which a command runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from envbuilder.errors import UsageError
from envbuilder.language import tr

if TYPE_CHECKING:
    from envbuilder.environment import Environment
    from envbuilder.project.project import Project


def project_here() -> Project | None:
    """Return the project of this folder, if its envbuilder.toml describes an environment."""
    from envbuilder.cli.settings import project_file, refuse_foreign_project, user_file

    file = project_file()
    if not file.is_file() or file == user_file():
        return None
    from envbuilder.project.project import open_project

    project = open_project(file)
    if project is not None:
        refuse_foreign_project(file)
    return project


def refuse_project(environment: Environment, command: str) -> None:
    """Refuse a command that makes rows alone: it would silently leave out what the project adds."""
    if environment.additions is not None:
        fields = {"command": command, "environment": environment.id}
        raise UsageError(
            tr("{command} does not work for projects, only for rows", **fields),
            hint=tr("envbuilder {command} {environment} takes the row without what the project adds", **fields),
        )
