"""The settings files: values that hold for every command unless a variable or an option gives another.

A user's file is `envbuilder.toml` in the configuration folder; that of a project is in the working folder or above it,
and wins. Keys are the names of options that describe a site or a habit: `registry`, `hw`, `pip-index`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from envbuilder import paths
from envbuilder.errors import UsageError
from envbuilder.language import did_you_mean, tr

if TYPE_CHECKING:
    import click

FILE = "envbuilder.toml"


class FileSetting(NamedTuple):
    value: Any
    file: Path


def user_file() -> Path:
    return paths.config_folder() / FILE


def project_file() -> Path:
    """Return the file of the project: the nearest above the working folder, or the one to make there."""
    here = Path.cwd()
    return next((folder / FILE for folder in (here, *here.parents) if (folder / FILE).is_file()), here / FILE)


def read(known: Mapping[str, click.Option]) -> dict[str, FileSetting]:
    """Return the settings of both files by their keys; an unknown one is an error."""
    found: dict[str, FileSetting] = {}
    for file in (user_file(), project_file()):
        if file.is_file():
            for key, value in _parsed(file).items():
                name = key_of(key, known, str(file))
                found[name] = FileSetting(_placed(known[name], name, value, file), file)
    return found


def defaults(command: click.Command, known: Mapping[str, click.Option]) -> dict[str, Any]:
    """Return the settings as click takes them for a command, or for the commands of a group."""
    # most users have no file, and listing environments has to start at once
    if not (user_file().is_file() or project_file().is_file()):
        return {}
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
    """Set a value in a file, or remove it (None); all other lines stay as they are."""
    from envbuilder.files import write_text

    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    kept = [line for line in lines if line.partition("=")[0].strip().replace("_", "-") != key]
    if value is not None:
        kept.append(f"{key} = {_written(value)}")
    write_text(file, "\n".join(kept) + "\n" if kept else "")


def _parsed(file: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(tr("{file} is not TOML: {reason}", file=file, reason=error)) from error


def _placed(option: click.Option, key: str, value: Any, file: Path) -> Any:
    """Return a value as the option takes it; paths are relative to the file."""
    import click

    if isinstance(value, dict) or (isinstance(value, list) and not option.multiple):
        raise UsageError(tr("{file}: '{key}' takes one value, not {value}", file=file, key=key, value=value))
    if option.multiple and not isinstance(value, list):
        value = [value]
    return str(file.parent / paths.expanded(value)) if isinstance(option.type, click.Path) else value


def _written(value: Any) -> str:
    import json

    # TOML writes these as JSON does
    return json.dumps(value, ensure_ascii=False)
