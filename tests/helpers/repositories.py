"""Tiny git repositories, and a host that serves them to one user."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.helpers.web_server import Handler, body_of, reply, serving


def git(folder: Path, *arguments: str) -> str:
    names = ["-c", "user.name=t", "-c", "user.email=t@example", "-c", "protocol.file.allow=always"]
    command = ["git", *names, "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def repository(folder: Path, files: dict[str, str], submodules: dict[str, tuple[Path, str]] | None = None) -> str:
    """Make a repository and return its commit; a submodule is cloned from a folder and recorded with an address."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for path, (place, address) in (submodules or {}).items():
        git(folder, "submodule", "--quiet", "add", str(place), path)
        git(folder, "config", "--file", ".gitmodules", f"submodule.{path}.url", address)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "x")
    return git(folder, "rev-parse", "HEAD")


def make_bare(folder: Path) -> None:
    """Replace a repository by a bare one, as a mirror holds them."""
    bare = folder.with_suffix(".bare")
    git(folder, "clone", "-q", "--bare", str(folder), str(bare))
    shutil.rmtree(folder)
    bare.rename(folder)


@contextmanager
def private_host(folder: Path, user: str, password: str, during: Callable[[], None]) -> Iterator[str]:
    """Serve the repositories in a folder to one user, as git's own program does; `during` runs at each request."""
    wanted = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    def answer(handler: Handler, number: int) -> None:
        during()
        if handler.headers["Authorization"] != wanted:
            reply(handler, 401, WWW_Authenticate='Basic realm="x"')
            return
        path, _, query = handler.path.partition("?")
        variables = {
            "GIT_PROJECT_ROOT": str(folder), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query,
            "REQUEST_METHOD": handler.command, "CONTENT_TYPE": handler.headers.get("Content-Type", ""),
            "HTTP_CONTENT_ENCODING": handler.headers.get("Content-Encoding", ""), "REMOTE_USER": user,
            "PATH": os.environ["PATH"],
        }  # fmt: skip
        done = subprocess.run(
            ["git", "http-backend"], input=body_of(handler), capture_output=True, env=variables, check=True
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        reply(handler, int(fields.get("Status", "200")[:3]), content, fields["Content-Type"])

    with serving(answer) as server:
        yield server.host
