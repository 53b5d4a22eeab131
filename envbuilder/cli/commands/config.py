"""envbuilder config"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import click

from envbuilder.cli import options, settings
from envbuilder.cli.arguments import Talk
from envbuilder.cli.help import Group
from envbuilder.cli.json import document
from envbuilder.errors import UsageError
from envbuilder.language import tr

# the user and password of an address, also without its scheme, or with a slash in the password
_CREDENTIALS = re.compile(r"(?:(?<=//)[^/\s]*|(?:(?<=//)|^)[^/\s@:]*:(?:[^/\s]*|(?!\d+/|//)\S*))@")
_project = options.option(
    "--project", is_flag=True, help="Change the file of this folder's project, not that of the user."
)


@click.group("config", cls=Group, invoke_without_command=True)
@options.option("--all", "all_", is_flag=True, help="Also list settings without a value.")
@options.as_json
@options.talk
def command(all_: bool, json_: bool, talk: Talk) -> None:
    """List the settings in force, and where each comes from; `config set` changes them.

    An option of the command line wins over a variable, that over the project's file, and that over the user's.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return
    console, found = talk.console, settings.read(options.SETTINGS)
    rows = [_row(name, found.get(name)) for name in sorted(options.SETTINGS)]
    if json_:
        keys = ("name", "value", "from", "variable")
        console.data(document(settings=[dict(zip(keys, row, strict=True)) for row in rows]))
        return
    listed = [row for row in rows if all_ or row[2] != "default"]
    if listed:
        header = (tr("SETTING"), tr("VALUE"), tr("FROM"), tr("VARIABLE"))
        console.table(header, [(name, _text(value), tr(place), variable) for name, value, place, variable in listed])
    else:
        console.talk(tr("no settings; `envbuilder config --all` lists what can be set"))


def _text(value: Any) -> str:
    """Return a value as `config set` takes it."""
    if isinstance(value, list):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _without_password(value: Any) -> Any:
    """Return a value with *** in place of the user and password of an address."""
    if isinstance(value, list):
        return [_without_password(item) for item in value]
    return _CREDENTIALS.sub("***@", value) if isinstance(value, str) else value


def _row(key: str, setting: settings.FileSetting | None) -> tuple[str, Any, str, str]:
    """Return a setting's name, its value, where the value comes from, and its variable."""
    option = options.SETTINGS[key]
    variable = str(option.envvar)
    if os.environ.get(variable):
        return key, _without_password(os.environ[variable]), "variable", variable
    if setting is not None:
        return key, _without_password(setting.value), str(setting.file), variable
    return key, option.default if isinstance(option.default, str) else "", "default", variable


@command.command("set")
@click.argument("name", shell_complete=options.complete_setting)
@click.argument("values", metavar="VALUE...", nargs=-1, required=True)
@_project
@options.talk
def set_(name: str, values: tuple[str, ...], project: bool, talk: Talk) -> None:
    """Set a value for every command."""
    known = settings.key_of(name, options.SETTINGS, "config")
    option = options.SETTINGS[known]
    if len(values) > 1 and not option.multiple:
        raise UsageError(tr("'{name}' takes one value, not {number}", name=name, number=len(values)))
    made = [_converted(option, value) for value in values]
    _change(known, made if option.multiple else made[0], project, talk)


@command.command("unset")
@click.argument("name", shell_complete=options.complete_setting)
@_project
@options.talk
def unset(name: str, project: bool, talk: Talk) -> None:
    """Remove a value."""
    _change(settings.key_of(name, options.SETTINGS, "config"), None, project, talk)


def _change(name: str, value: Any, project: bool, talk: Talk) -> None:
    file = settings.project_file() if project else settings.user_file()
    settings.change(file, name, value)
    talk.console.talk(tr("removed from {file}", file=file) if value is None else tr("written to {file}", file=file))


def _converted(option: click.Option, text: str) -> Any:
    """Return a value for TOML, checked and converted by the type of the option."""
    kind: click.ParamType[Any] = click.BOOL if option.is_flag else click.INT if option.count else option.type
    try:
        value = kind.convert(text, option, None)
    except click.BadParameter as error:
        raise UsageError(f"{option.opts[-1]}: {error.message}") from error
    # a relative path belongs to this folder, and the settings file may be in another
    return str(value.absolute()) if isinstance(value, Path) else value
