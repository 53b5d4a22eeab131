"""Where git repositories are read: at their hosts, or in a mirror; and what git needs to reach them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

from envbuilder.errors import HostError, NetworkError
from envbuilder.http import without_credentials
from envbuilder.language import tr
from envbuilder.process import ProgramError, run, undisturbed

_USER, _PASSWORD = "GIT_HOST_USER", "GIT_HOST_PASSWORD"
# gives git the password without a command line that has it; the shell itself prints
_HELPER = f'!f() {{ test "$1" = get && printf "username=%s\\npassword=%s\\n" "${_USER}" "${_PASSWORD}"; }}; f'


class Remote(NamedTuple):
    """A repository at a host: its address without a password, and the settings and variables that have it."""

    address: str
    settings: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}


LOCAL = Remote("")


class MirrorError(NetworkError):
    """A folder of mirrors lacks a repository."""


def bare_name(repository: str) -> str:
    """Return the name that `git clone --bare` gives to the folder of a repository."""
    return Path(urlsplit(repository).path.strip("/")).name.removesuffix(".git") + ".git"


def mirrored(repository: str, mirror: str | None) -> str:
    """Return the address of a repository, or its folder in a mirror."""
    if mirror is None:
        return repository
    path = urlsplit(repository).path.strip("/")
    folder = Path(mirror)
    if not folder.is_dir():
        return f"{mirror.rstrip('/')}/{path}"
    stem, name = path.removesuffix(".git"), bare_name(repository)
    names = (f"{stem}.git", stem, name, name.removesuffix(".git"))
    found = next((folder / item for item in names if (folder / item).is_dir()), None)
    if found is None:
        raise MirrorError(
            tr("the git mirror {mirror} has no {path}", mirror=mirror, path=names[0]),
            hint=tr("put a bare repository at {path}", path=folder / name),
        )
    return str(found)


def remote(address: str) -> Remote:
    """Take the password out of an address: every user of this machine can read the command lines of git."""
    try:
        parts = urlsplit(address)
        user, password, host = parts.username, parts.password, parts.netloc.rpartition("@")[2]
    except ValueError:
        # git refuses it, too, and must not show a password either
        return Remote(without_credentials(address))
    if user is None:
        return Remote(address)
    if parts.scheme not in {"http", "https"}:
        return Remote(urlunsplit(parts._replace(netloc=f"{user}@{host}")))
    # only for this host, and in place of the helpers of the user, which would store it
    helper = f"credential.{parts.scheme}://{host}.helper"
    return Remote(
        urlunsplit(parts._replace(netloc=host)),
        (f"{helper}=", f"{helper}={_HELPER}"),
        {_USER: unquote(user), _PASSWORD: unquote(password or "")},
    )


def git(arguments: list[str], at: Remote = LOCAL, *, seconds: int = 60) -> str | None:
    """Return what git prints, or None if it fails; a program that is missing or too slow is an error."""
    if shutil.which("git") is None:
        raise HostError(tr("git, which reads repositories, is not installed"), hint=tr("install git"))
    variables = {**undisturbed(), "GIT_TERMINAL_PROMPT": "0", **at.variables}
    settings = [word for item in at.settings for word in ("-c", item)]
    try:
        done = run(["git", *settings, *arguments], variables=variables, seconds=seconds)
    except ProgramError as error:
        raise NetworkError(
            tr("git did not end within {seconds} s", seconds=seconds), hint=tr("use --git-mirror")
        ) from error
    return done.text if done.ok else None


def names_of(repository: str, mirror: str | None, kind: Literal["tags", "heads"]) -> list[str]:
    """Return the names of the tags or branches of a repository; nothing is downloaded."""
    place = mirrored(repository, mirror)
    at = LOCAL if Path(place).is_dir() else remote(place)
    listed = git(["ls-remote", "--quiet", f"--{kind}", "--refs", at.address or place], at)
    if listed is None:
        raise NetworkError(
            tr("{repository} cannot be read", repository=without_credentials(place)),
            hint=tr("use --git-mirror"),
        )
    return re.findall(rf"refs/{kind}/(\S+)$", listed, re.M)
