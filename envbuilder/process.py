"""Starts other programs: waits for their end and captures the output, or streams it while they run."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from envbuilder.errors import HostError
from envbuilder.language import english, tr

# variables that redirect Python, bash or git, or add colour to parsed output
MISLEADING = (
    "PYTHONPATH", "PYTHONHOME", "CONDA_PREFIX", "BASH_ENV", "ENV", "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX",
    "GIT_SHALLOW_FILE", "FORCE_COLOR", "CLICOLOR_FORCE", "RUST_LOG",
)  # fmt: skip
# the variables with which pip and uv reach an index; all others change what is installed, or where
REACHING = (
    "CACHE|INDEX|FIND_LINKS|OFFLINE|HOST|CERT|TLS|PROXY|TIMEOUT|RETRIES|KEYRING|CREDENTIALS|CONCURRENT|VERSION_CHECK"
    "|^PIP_CONFIG_FILE$"
)


class Finished(NamedTuple):
    """A program that has ended."""

    code: int
    output: bytes
    errors: bytes

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def text(self) -> str:
        return self.output.decode(errors="replace")

    @property
    def error_text(self) -> str:
        return self.errors.decode(errors="replace")

    @property
    def last_words(self) -> str:
        """Return the last line of the errors, or else of the output."""
        lines = self.error_text.strip().splitlines() or self.text.strip().splitlines()
        return lines[-1].strip() if lines else tr("no output")


class ProgramError(HostError):
    """A program cannot be started, or does not end in time."""


def run(
    command: Sequence[str], *, stdin: str = "", cwd: Path | None = None, variables: Mapping[str, str] | None = None,
    seconds: float | None = None, merge: bool = False,
) -> Finished:  # fmt: skip
    """Run a program to its end and capture its output; `merge` includes its errors in the output."""
    try:
        done = subprocess.run(  # noqa: S603
            command, input=stdin.encode(), stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merge else subprocess.PIPE, cwd=cwd, env=variables, timeout=seconds,
            check=False,
        )  # fmt: skip
    except OSError as error:
        raise ProgramError(
            english("the program {command} cannot be started: {reason}", command=command[0], reason=error.strerror)
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ProgramError(
            english("{command} did not end within {seconds} s", command=command[0], seconds=f"{seconds:.0f}")
        ) from error
    return Finished(done.returncode, done.stdout, done.stderr or b"")


def start(
    command: Sequence[str], *, cwd: Path | None = None, variables: Mapping[str, str] | None = None,
    own_session: bool = True, dies_with_parent: bool = False, inherited: Sequence[int] = (),
) -> subprocess.Popen[str]:  # fmt: skip
    """Start a program whose output and errors are read line by line from `stdout`."""
    try:
        return subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", cwd=cwd, env=variables, start_new_session=own_session, pass_fds=tuple(inherited),
            preexec_fn=_die_with_parent if dies_with_parent else None,
        )  # fmt: skip
    except OSError as error:
        raise ProgramError(
            english("the program {command} cannot be started: {reason}", command=command[0], reason=error.strerror)
        ) from error


def undisturbed() -> dict[str, str]:
    """Return the variables for a program, without those that redirect Python, bash, git, pip or uv."""
    own = (item for item in os.environ.items() if item[0] not in MISLEADING)
    return {name: value for name, value in own if not name.startswith(("PIP_", "UV_")) or re.search(REACHING, name)}


def _die_with_parent() -> None:
    """Have the kernel end this process when its parent is killed."""
    import ctypes
    import signal

    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)
