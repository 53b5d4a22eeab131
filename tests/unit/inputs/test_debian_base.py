"""A base image from Debian packages: a build that is stopped leaves no files, mounts or processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envbuilder import platforms
from envbuilder.docker.engine import Image
from envbuilder.errors import HostError
from envbuilder.inputs import debian_base
from envbuilder.inputs.debian_base import make_base
from envbuilder.matrix.model import LocalBase

# mounts like the real program, and keeps writing in the background while it waits
MMDEBSTRAP = """#!/bin/sh
for root; do :; done
mkdir -p "$root/proc"
mount -t proc proc "$root/proc"
(while :; do : > "$root/$(date +%N)"; done) &
echo "$root" > "$BEGUN"
sleep 60
"""
CODE = """
import signal, sys
from envbuilder import platforms
from envbuilder.inputs.debian_base import make_base
from envbuilder.matrix.model import LocalBase

class Empty:
    arch = platforms.arch()
    def image(self, name): return None
    def runs(self, arch): return True

signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
make_base(Empty(), LocalBase(suite="x", python="3", packages=("y",)), Empty.arch)
"""


def may_mount() -> bool:
    tried = ["unshare", "--mount", "true"]
    return bool(shutil.which(tried[0])) and subprocess.run(tried, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(("host", "engine"), [("x86_64", "aarch64"), ("aarch64", "x86_64")])
def test_an_image_for_another_architecture_is_not_made(host: str, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of that architecture cannot run on this host."""
    monkeypatch.setattr(platforms, "arch", lambda: host)
    monkeypatch.setattr(debian_base, "emulator", lambda _: None)
    base = LocalBase(suite="x", python="3", packages=("y",))
    docker: Any = SimpleNamespace(
        arch=engine, image=lambda _: Image("1", "x", 1, "x86_64", {}, ""), runs=lambda arch: arch == engine
    )
    with pytest.raises(
        HostError,
        match=f"for aarch64 cannot be made here: this host is {host}, the docker engine {engine}, and aarch64 is not",
    ):
        make_base(docker, base, "aarch64")
    assert make_base(docker, base, "x86_64") == "envbuilder/base:x-py3-x86_64", "one that the engine has is used"


@pytest.mark.skipif(not may_mount(), reason="needs the permission to mount")
def test_nothing_is_left_mounted_or_running_when_it_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    program, begun, folder = tmp_path / "bin" / "mmdebstrap", tmp_path / "begun", tmp_path / "temporary"
    program.write_text(MMDEBSTRAP)
    program.chmod(0o755)
    folder.mkdir()
    path = f"{program.parent}:{os.environ['PATH']}"
    process = subprocess.Popen(
        [sys.executable, "-c", CODE], stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PATH": path, "BEGUN": str(begun), "TMPDIR": str(folder)},
    )  # fmt: skip
    while not (begun.is_file() and begun.read_text()):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    root = begun.read_text().strip()
    assert root not in Path("/proc/mounts").read_text(), "its mounts are visible to no other process"
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate()
    assert (process.returncode, errors) == (143, "")
    assert list(folder.iterdir()) == []
    assert not [name for name in Path("/proc").glob("[0-9]*/cmdline") if root in _text(name)]


# puts the sources that it gets into a root, on which it runs the hook
RECORDING = """#!/bin/sh
echo "$@" > "$SEEN/command"
for word; do case "$word" in
  --customize-hook=*) hook=${word#*=};;
  *.list) mkdir -p "$SEEN/root/etc/apt" && cp "$word" "$SEEN/root/etc/apt/";;
esac; done
sh -ec "$hook" hook "$SEEN/root"
"""


def test_the_password_of_a_mirror_is_in_no_command_line_and_no_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "mmdebstrap"
    program.parent.mkdir()
    program.write_text(RECORDING)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("SEEN", str(tmp_path))
    monkeypatch.setattr(debian_base, "_build", lambda *_: None)
    docker: Any = SimpleNamespace(arch=platforms.arch(), image=lambda _: None, runs=lambda _: True)
    base = LocalBase(suite="bookworm", python="3", packages=("y",))
    make_base(docker, base, platforms.arch(), "https://user:secret@mirror.example.com/")
    assert "secret" not in (tmp_path / "command").read_text()
    sources = tmp_path / "root" / "etc" / "apt" / "mirror.list"
    assert sources.read_text() == "deb https://mirror.example.com/debian bookworm main\n"


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""  # the process has just ended
