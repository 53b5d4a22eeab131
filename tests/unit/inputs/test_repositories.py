"""Repositories at a host that wants a password: only the host gets it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from envbuilder.cli.build_plan import _from_git
from envbuilder.inputs.repositories import Commit, UnfetchedError, pack, unavailable
from tests.helpers.repositories import make_bare, private_host, repository

USER, PASSWORD = "me@example.com", "h:u/s@h'$(id)"
# as in an address
USER_INFO = "me%40example.com:h%3Au%2Fs%40h%27%24%28id%29"


def command_lines() -> Iterator[str]:
    """Yield the command lines of all processes, which every user of this machine can read."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            yield (process / "cmdline").read_text(errors="replace").replace("\0", " ")
        except OSError:
            continue  # it has ended


@pytest.fixture
def commit(tmp_path: Path) -> Commit:
    """Make a mirror with a repository of two commits."""
    place = tmp_path / "mirror/team/tool.git"
    found = repository(place, {"setup.py": "1"})
    make_bare(place)
    return Commit("tool 1", "https://git.example/team/tool.git", found)


def test_the_password_of_a_mirror_is_in_no_command_line(
    commit: Commit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # helpers of the user must neither answer in place of the password nor store it
    kept = tmp_path / "kept"
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    (tmp_path / "config").write_text(f"[credential]\n helper = store --file {kept}\n")
    kept.write_text("http://other:wrong@127.0.0.1\n")
    before, seen, packed = kept.read_text(), list[str](), io.BytesIO()

    def look() -> None:
        seen.extend(line for line in command_lines() if "remote-http" in line or "git fetch" in line)

    with private_host(tmp_path / "mirror", USER, PASSWORD, look) as host, tarfile.open(fileobj=packed, mode="w") as tar:
        mirror = f"http://{USER_INFO}@{host}"
        assert list(unavailable(commit, mirror)) == []
        pack(tar, commit, mirror)
        assert tar.getnames() == ["setup.py"]
    assert seen and not [line for line in seen if "example.com" in line or "%40" in line or "h:u" in line]
    assert kept.read_text() == before


def test_a_token_in_place_of_a_user(commit: Commit, tmp_path: Path) -> None:
    token = "t" * 300
    with private_host(tmp_path / "mirror", token, "", lambda: None) as host:
        assert list(unavailable(commit, f"http://{token}@{host}")) == []


def test_a_wrong_password_is_not_shown(commit: Commit, tmp_path: Path) -> None:
    with private_host(tmp_path / "mirror", USER, "other", lambda: None) as host:
        mirror = f"http://{USER_INFO}@{host}"
        ((_, reason),) = unavailable(commit, mirror)
        with pytest.raises(UnfetchedError) as raised, tarfile.open(fileobj=io.BytesIO(), mode="w") as tar:
            pack(tar, commit, mirror)
    for text in (reason, raised.value.message):
        assert "Authentication failed" in text and "%40" not in text and "example.com" not in text


@pytest.mark.parametrize("mirror", ["http://[", "http://me:hush@[", "ssh://me:hush@127.0.0.1:1"])
def test_an_address_that_git_refuses(commit: Commit, mirror: str) -> None:
    ((_, reason),) = unavailable(commit, mirror)
    assert reason and "hush" not in reason


def test_the_plan_of_a_build_does_not_show_a_password() -> None:
    assert _from_git("tool", "https://me:hush@git.example/x") == "tool: from https://git.example/x"
