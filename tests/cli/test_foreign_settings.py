"""Settings files of a project: they tighten what the user trusts, and those of other users decide nothing about it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from envbuilder.cli import COMMANDS, cli, options, settings
from envbuilder.environment.image_names import ENVIRONMENT
from envbuilder.matrix import Matrix
from envbuilder.registry.client import Registry
from envbuilder.registry.reference import Reference
from envbuilder.registry.signatures import sign
from envbuilder.signing.keys import make_keys, read_private
from tests.conftest import A2_VLLM, Result, environment, run, succeeded
from tests.helpers.registry_in_memory import in_memory, published

ANOTHER_USER = 65534


class Site(NamedTuple):
    """A user's file, the file of a project two folders above the working folder, and a registry with one image."""

    user: Path
    project: Path
    host: str
    sign: Callable[[str], None]
    pull: Callable[..., Result]


@pytest.fixture
def site(matrix: Matrix, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    inner = tmp_path / "project" / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    user, project = tmp_path / "config" / "envbuilder" / settings.FILE, tmp_path / "project" / settings.FILE
    user.parent.mkdir(parents=True)
    for name in ("team", "project"):
        for end, content in zip(("key", "pub"), make_keys(b"x"), strict=True):
            (tmp_path / f"{name}.{end}").write_bytes(content)
    row = environment(matrix, A2_VLLM)
    with in_memory() as (host, _):
        image_name = Reference.parse(row.image_name(f"{host}/team"))
        published(host, image_name.wanted, config={"Labels": {ENVIRONMENT: row.id}})

        def signed(key: str) -> None:
            registry = Registry(host, back_off=0)
            image = registry.manifest(image_name.repository, image_name.wanted)
            sign(registry, image_name, image, read_private(tmp_path / f"{key}.key", b"x"))

        def pulled(*words: str, **variables: str) -> Result:
            return run("pull", A2_VLLM, "--save", str(tmp_path / "image.tar"), *words, **variables)

        user.write_text(f'registry = "{host}/team"\nverify-key = "{host}/team={tmp_path / "team.pub"}"\n')
        yield Site(user, project, host, signed, pulled)


# --- a project cannot loosen -----------------------------------------------------------------------------


def test_a_project_cannot_switch_signatures_off(site: Site) -> None:
    site.project.write_text("verify-key = []\n")
    result = site.pull()
    assert result.returncode == 6 and "has no signature" in result.stderr
    site.sign("team")
    succeeded(site.pull())


def test_a_project_cannot_add_a_key_that_suffices(site: Site) -> None:
    site.sign("project")
    for prefix in (f"{site.host}/team=", ""):
        site.project.write_text(f'verify-key = "{prefix}../project.pub"\n')
        result = site.pull()
        assert result.returncode == 6 and "team.pub" in result.stderr


def test_a_project_can_demand_one_more_signature(site: Site) -> None:
    site.sign("team")
    site.project.write_text(f'verify-key = "{site.host}/team=../project.pub"\n')
    result = site.pull()
    assert result.returncode == 6 and "project.pub" in result.stderr
    site.sign("project")
    result = succeeded(site.pull())
    assert "team.pub" in result.stderr and "project.pub" in result.stderr


def test_a_project_may_have_the_only_keys(site: Site) -> None:
    site.user.write_text(f'registry = "{site.host}/team"\n')
    site.project.write_text(f'verify-key = "{site.host}/team=../project.pub"\n')
    assert site.pull().returncode == 6
    # what the user types or exports is the user's own
    key = str(site.project.parents[1] / "team.pub")
    site.sign("team")
    succeeded(site.pull("--verify-key", key))
    succeeded(site.pull(ENVBUILDER_VERIFY_KEY=key))


# --- files of others -------------------------------------------------------------------------------------


def owned_by_another(file: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to give a file to another user")
    os.chown(file, ANOTHER_USER, ANOTHER_USER)


def linked_by_another(file: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to give a link to another user")
    file.rename(file.with_name("real.toml"))
    file.symlink_to("real.toml")
    os.chown(file, ANOTHER_USER, ANOTHER_USER, follow_symlinks=False)


def writable_by_a_group(file: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to give a file to another group")
    os.chown(file, -1, ANOTHER_USER)
    file.chmod(0o664)


FOREIGN: dict[str, Callable[[Path], None]] = {
    "another user": owned_by_another,
    "a link of another user": linked_by_another,
    "another group": writable_by_a_group,
    "everyone": lambda file: file.chmod(0o666),
}


@pytest.mark.parametrize("how", FOREIGN)
def test_a_file_of_others_does_not_choose_the_registry(site: Site, how: str) -> None:
    site.sign("team")
    site.project.write_text(f'registry = "{site.host}/team"\nhw = "a2"\n')
    succeeded(site.pull())
    FOREIGN[how](site.project)
    result = site.pull()
    assert result.returncode == 2
    assert f"{site.project} sets 'registry', and " in result.stderr
    assert f"hint: envbuilder config set trusted-folder {site.project.parent}" in result.stderr
    # commands without this setting work, and the hint does
    assert "a2" in succeeded(run("list")).stdout
    assert run("config").returncode == 2
    succeeded(run("config", "set", "trusted-folder", str(site.project.parent)))
    succeeded(site.pull())
    succeeded(run("config"))


def test_a_file_of_others_cannot_trust_itself(site: Site) -> None:
    site.project.write_text(f'registry = "{site.host}/team"\ntrusted-folder = "{site.project.parent}"\n')
    site.project.chmod(0o666)
    result = site.pull()
    assert result.returncode == 2 and "'trusted-folder' counts only in your own file" in result.stderr


def test_only_what_trusts_nothing_is_taken_from_others(site: Site) -> None:
    """A new setting must be refused until it is found harmless."""
    refused = set(options.SETTINGS) - settings.HARMLESS
    assert refused >= {
        "verify-key", "sign-key", "registry", "mirror", "registry-mirror", "apt-mirror", "git-mirror", "model-mirror",
        "index-url", "pip-index", "proxy", "ca-bundle", "matrices", "wheel-cache", "network-settings",
        "trusted-folder",
    }  # fmt: skip
    for name in COMMANDS:
        cli.get_command(click.Context(cli), name)
    assert set(options.SETTINGS) >= settings.HARMLESS
    site.project.write_text('matrices = "mine"\n')
    site.project.chmod(0o666)
    for words in (["list"], ["check"], ["matrix", "outdated"]):
        result = run(*words)
        assert result.returncode == 2 and "sets 'matrices', and " in result.stderr, words
