"""The settings files: values that hold for every command unless a variable or an option gives another.

The user's file is `envbuilder.toml` in the configuration folder. The project's file is in the working folder or above
it, and wins. Keys are the names of options that describe a site or a habit: `registry`, `hw`, `pip-index`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from envbuilder import paths
from envbuilder.cli.arguments import KeyFile
from envbuilder.errors import UsageError
from envbuilder.language import did_you_mean, tr

FILE = "envbuilder.toml"


class FileSetting(NamedTuple):
    value: Any
    file: Path


def user_file() -> Path:
    return paths.config_folder() / FILE


def project_file() -> Path:
    """Return the nearest file in the working folder or above it; if none exists, the path of a new one."""
    here = Path.cwd()
    return next((folder / FILE for folder in (here, *here.parents) if (folder / FILE).is_file()), here / FILE)


def read(known: Mapping[str, click.Option]) -> dict[str, FileSetting]:
    """Return the settings of both files by their keys; an unknown key is an error."""
    found: dict[str, FileSetting] = {}
    for file in (user_file(), project_file()):
        if file.is_file():
            for key, value in _parsed(file).items():
                name = key_of(key, known, str(file))
                found[name] = FileSetting(_placed(known[name], name, value, file), file)
    return found


def defaults(command: click.Command, known: Mapping[str, click.Option]) -> dict[str, Any]:
    """Return the settings as a default map of click, for a command or for the commands of a group."""
    values = {str(known[key].name): setting.value for key, setting in read(known).items()}
    subcommands = getattr(command, "commands", None)
    return dict.fromkeys(subcommands, values) if subcommands else values


def key_of(text: str, known: Mapping[str, click.Option], where: str) -> str:
    key = text.replace("_", "-")
    if key not in known:
        guess = did_you_mean(key, known)
        raise UsageError(
            tr("{where}: there is no setting '{text}'", where=where, text=text),
            hint=guess + tr("known: {names}", names=", ".join(sorted(known))),
        )
    return key


def change(file: Path, key: str, value: Any) -> None:
    """Set a value in a file, or remove it (None); all other lines stay unchanged."""
    import json

    from envbuilder.files import write_text

    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    kept = _without(lines, key)
    if value is not None:
        # TOML and JSON write texts, numbers and lists of them in the same way
        kept.append(f"{key} = {json.dumps(value, ensure_ascii=False)}")
    write_text(file, "\n".join(kept) + "\n" if kept else "")


def _without(lines: Sequence[str], key: str) -> list[str]:
    """Return the lines of a file without those of one setting, whose value may take several lines."""
    kept: list[str] = []
    statement: list[str] = []
    for line in lines:
        statement.append(line)
        try:
            keys = {name.replace("_", "-") for name in _loads("\n".join(statement))}
        except ValueError:
            continue
        kept += [] if key in keys else statement
        statement = []
    return kept + statement


def _parsed(file: Path) -> dict[str, Any]:
    try:
        return _loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(tr("{file} is not TOML: {reason}", file=file, reason=error)) from error


def _loads(text: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    return tomllib.loads(text)


def _placed(option: click.Option, key: str, value: Any, file: Path) -> Any:
    """Return a value as the option takes it; paths are relative to the file."""
    if isinstance(value, dict) or (isinstance(value, list) and not option.multiple):
        raise UsageError(tr("{file}: '{key}' takes one value, not {value}", file=file, key=key, value=value))
    if option.multiple and not isinstance(value, list):
        value = [value]
    if isinstance(option.type, KeyFile):
        keys = (str(text).rpartition("=") for text in value)
        return [f"{prefix}{equals}{file.parent / paths.expanded(key_file)}" for prefix, equals, key_file in keys]
    return str(file.parent / paths.expanded(value)) if isinstance(option.type, click.Path) else value
