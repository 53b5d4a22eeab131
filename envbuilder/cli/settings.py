"""The settings files: values that hold for every command unless a variable or an option gives another.

The user's file is `envbuilder.toml` in the configuration folder. The project's file is in the working folder or above
it, and wins. Keys are the names of options that describe a site or a habit: `registry`, `hw`, `pip-index`.

A project may not loosen what the user trusts: its keys for signatures are demanded beside the user's, and a file that
others can write decides only what is harmless.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from envbuilder import paths
from envbuilder.cli.arguments import KeyFile, ProjectKey
from envbuilder.errors import UsageError
from envbuilder.files import parse_toml
from envbuilder.language import did_you_mean, tr

FILE = "envbuilder.toml"
# the table of a project's file that describes its environment; all else in the file are settings
ENVIRONMENT = "environment"
# what is shown and chosen; all other settings decide what is trusted
HARMLESS = frozenset(
    (
        "quiet", "verbose", "color", "no-progress", "debug", "json",
        "framework", "branch", "engine", "hw", "arch", "os", "machine", "for-another-machine",
    )
)  # fmt: skip
_TRUSTED = "trusted-folder"


# what TOML calls the values of the types that settings have; others, such as dates, have none
_NOUNS = {str: "a text", bool: "true or false", int: "a number", list: "a list"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


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
    """Return the settings of both files by their keys; an unknown key is an error, and so is one of a foreign file."""
    found = _read(known)
    _refuse_foreign(found, set(found))
    return found


def defaults(command: click.Command, known: Mapping[str, click.Option]) -> dict[str, Any]:
    """Return the settings as a default map of click, for a command or for the commands of a group."""
    found = _read(known)
    subcommands: Mapping[str, click.Command] = getattr(command, "commands", {})
    taken = {item.name for part in (command, *subcommands.values()) for item in part.params}
    _refuse_foreign(found, {key for key in found if known[key].name in taken})
    values = {str(known[key].name): setting.value for key, setting in found.items()}
    return dict.fromkeys(subcommands, values) if subcommands else values


def _read(known: Mapping[str, click.Option]) -> dict[str, FileSetting]:
    found: dict[str, FileSetting] = {}
    # in the folder of the user's file they are one
    for file in dict.fromkeys((user_file(), project_file())):
        if file.is_file():
            for key, value in _parsed(file).items():
                if key == ENVIRONMENT and file != user_file():
                    continue
                name = key_of(key, known, str(file))
                placed = _placed(known[name], name, value, file)
                if isinstance(known[name].type, KeyFile) and file != user_file():
                    own = found[name].value if name in found else []
                    placed = [*own, *map(ProjectKey, placed)]
                found[name] = FileSetting(placed, file)
    return found


# --- files of others -------------------------------------------------------------------------------------


def _refuse_foreign(found: Mapping[str, FileSetting], keys: set[str]) -> None:
    """Raise an error if the file of a project that others can write gives one of these settings."""
    places = found.get(_TRUSTED)
    if places is not None and places.file != user_file():
        raise UsageError(tr("{file}: '{key}' counts only in your own file", file=places.file, key=_TRUSTED))
    trusted = _trusted_folders(places.value if places else ())
    for key in sorted(keys - HARMLESS):
        _refuse_file(found[key].file, key, trusted)


def refuse_foreign_project(file: Path) -> None:
    """Raise an error if others can write the file of a project: it decides what is installed."""
    found = _parsed(user_file()).get(_TRUSTED, []) if user_file().is_file() else []
    _refuse_file(file, ENVIRONMENT, _trusted_folders([found] if isinstance(found, str) else found))


def _trusted_folders(of_user: Sequence[str]) -> list[str]:
    """Return the folders of the user's file, and those of the variable."""
    return [*of_user, *filter(None, os.environ.get("ENVBUILDER_TRUSTED_FOLDER", "").split(os.pathsep))]


def _refuse_file(file: Path, key: str, trusted: Sequence[str]) -> None:
    if file == user_file() or any(file.parent.samefile(place) for place in trusted if Path(place).is_dir()):
        return
    if reason := _foreign(file):
        folders = " ".join(shlex.quote(place) for place in (*trusted, str(file.parent)))
        raise UsageError(
            tr("{file} sets '{key}', and {reason}", file=file, key=key, reason=reason),
            hint=tr("envbuilder config set trusted-folder {folders}, if you trust who writes there", folders=folders),
        )


def _foreign(file: Path) -> str | None:
    """Return why other users decide what is in a file, or None. Root and the caller of sudo are not others."""
    mine = {0, os.geteuid(), *([int(os.environ["SUDO_UID"])] if os.environ.get("SUDO_UID", "").isdecimal() else [])}
    # whoever owns a link decides which file it is
    owner = next((status.st_uid for status in (file.lstat(), file.stat()) if status.st_uid not in mine), None)
    status = file.stat()
    if owner is not None:
        return tr("the user {user} owns it", user=owner)
    if status.st_mode & stat.S_IWOTH:
        return tr("every user can write it")
    if status.st_mode & stat.S_IWGRP and status.st_gid not in {0, os.getegid()}:
        return tr("the group {group} can write it", group=status.st_gid)
    return None


# --- keys and values -------------------------------------------------------------------------------------


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

    from envbuilder.files import changing, write_text

    with changing(file.parent):
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        kept = _without(lines, key)
        if value is not None:
            # TOML and JSON write texts, numbers and lists of them in the same way
            kept.append(f"{key} = {json.dumps(value, ensure_ascii=False)}")
        # it may have passwords of proxies and mirrors; that of a project is for everybody who works on it
        write_text(file, "\n".join(kept) + "\n" if kept else "", mode=0o600 if file == user_file() else None)


def _without(lines: Sequence[str], key: str) -> list[str]:
    """Return the lines of a file without those of one setting, whose value may take several lines."""
    kept: list[str] = []
    statement: list[str] = []
    for line in lines:
        statement.append(line)
        try:
            keys = {name.replace("_", "-") for name in parse_toml("\n".join(statement))}
        except ValueError:
            continue
        kept += [] if key in keys else statement
        statement = []
    return kept + statement


def _parsed(file: Path) -> dict[str, Any]:
    try:
        return parse_toml(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(tr("{file} is not TOML: {reason}", file=file, reason=error)) from error


def _placed(option: click.Option, key: str, value: Any, file: Path) -> Any:
    """Return a value as the option takes it; paths are relative to the file."""
    if isinstance(value, list) and not option.multiple:
        raise UsageError(tr("{file}: '{key}' takes one value, not {value}", file=file, key=key, value=tr("a list")))
    if option.multiple and not isinstance(value, list):
        value = [value]
    for item in value if option.multiple else (value,):
        _check_type(option, key, item, file)
    if isinstance(option.type, KeyFile):
        keys = (KeyFile.parts(str(text)) for text in value)
        return [KeyFile.joined(prefix, file.parent / paths.expanded(key_file)) for prefix, key_file in keys]
    if not isinstance(option.type, click.Path):
        return value
    placed = [str(file.parent / paths.expanded(place)) for place in (value if option.multiple else [value])]
    return placed if option.multiple else placed[0]


def _check_type(option: click.Option, key: str, value: Any, file: Path) -> None:
    kind: type = str
    wanted = "one line of text"
    if option.is_flag or option.count:
        kind, wanted = (bool, _NOUNS[bool]) if option.is_flag else (int, _NOUNS[int])
    found = _NOUNS.get(type(value), "another value")
    if type(value) is str and _CONTROL.search(value):
        found = "a text with control characters"
    elif type(value) is kind:
        return
    fields = {"file": file, "key": key, "wanted": tr(wanted), "found": tr(found)}
    raise UsageError(tr("{file}: '{key}' takes {wanted}, not {found}", **fields))
