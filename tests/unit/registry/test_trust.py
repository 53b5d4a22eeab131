"""Keys for images whose names begin with a prefix: in each form of the prefix, and never for fewer images than it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from envbuilder.environment.image_names import ENVIRONMENT
from envbuilder.errors import UsageError, ValidationError
from envbuilder.matrix import Matrix
from envbuilder.registry.client import Registry
from envbuilder.registry.reference import Reference, prefix_of
from envbuilder.registry.signatures import sign
from envbuilder.registry.trust import Trust, TrustedKey
from envbuilder.signing.keys import make_keys, read_private, read_public
from tests.conftest import A2_VLLM, Result, environment, run, succeeded
from tests.helpers.registry_in_memory import in_memory, published


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a pair of keys, and return the file of the public one."""
    folder = tmp_path_factory.mktemp("keys")
    private, public = make_keys(b"x")
    (folder / "team.key").write_bytes(private)
    (folder / "team.pub").write_bytes(public)
    return folder / "team.pub"


# --- prefixes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefix", "name"),
    [
        ("", "acme/verl:v1"),
        ("registry.example.com", "registry.example.com/team/verl:v1"),
        ("registry.example.com/", "registry.example.com/team/verl:v1"),
        ("Registry.Example.com/Team", "registry.example.com/team/verl:v1"),
        ("registry.example.com/team/verl", "registry.example.com/team/verl:v1"),
        ("registry.example.com/team/verl:V1", "registry.example.com/team/verl:v1"),
        ("127.0.0.1:5000/team", "127.0.0.1:5000/team/verl:v1"),
        ("localhost", "localhost/verl:v1"),
        ("docker.io/acme", "acme/verl:v1"),
        ("acme", "docker.io/acme/verl:v1"),
        ("docker.io", "acme/verl:v1"),
        ("docker.io/library", "verl:v1"),
    ],
)
def test_a_prefix_covers_the_images_below_it(prefix: str, name: str, key: Path) -> None:
    found = Trust((TrustedKey(prefix_of(prefix), read_public(key)),)).demands(Reference.parse(name))
    assert [[item.file for item in keys] for keys in found] == [[str(key)]]


@pytest.mark.parametrize(
    ("prefix", "name"),
    [
        ("registry.example.com/team", "registry.example.com/team-evil/verl:v1"),
        ("registry.example.com", "registry.example.com.evil.example/verl:v1"),
        ("registry.example.com", "registry.example.com:5000/verl:v1"),
        ("registry.example.com/team/verl:v1", "registry.example.com/team/verl:v10"),
        ("acme", "acme.example/verl:v1"),
        ("docker.io/acme", "quay.io/acme/verl:v1"),
    ],
)
def test_a_name_that_no_prefix_covers_is_refused(prefix: str, name: str, key: Path) -> None:
    keys = (TrustedKey(prefix_of(prefix), read_public(key)),)
    with pytest.raises(ValidationError, match="no key that verify-key gives is for"):
        Trust(keys).demands(Reference.parse(name))
    assert Trust(keys, allow_unsigned=True).demands(Reference.parse(name)) == []
    assert Trust().demands(Reference.parse(name)) == []


@pytest.mark.parametrize(
    "prefix", ["https://registry.example.com/", "http://h", "h.example//x", "h.example/x*", "h.example/_x", "a b", "/x",
               "h.example:port/x", "h.example/x@sha256:1", "-.example/x y"],
)  # fmt: skip
def test_a_prefix_that_no_name_can_have_is_an_error(prefix: str, key: Path) -> None:
    with pytest.raises(UsageError, match="no name of an image begins with"):
        prefix_of(prefix)
    result = run("pull", A2_VLLM, "--registry", "localhost:9/x", "--verify-key", f"{prefix}={key}")
    assert result.returncode == 2 and "no name of an image begins with" in result.stderr and "hint: " in result.stderr


def test_a_project_demands_its_keys_beside_those_of_the_user(key: Path) -> None:
    team, project = read_public(key), read_public(key)._replace(file="project.pub")
    trust = Trust((TrustedKey("h.example/team", team),), (TrustedKey("h.example", project),))
    assert trust.demands(Reference.parse("h.example/team/verl:v1")) == [[team], [project]]
    # the user has no key for it, and a project cannot give one
    with pytest.raises(ValidationError, match="no key that verify-key gives is for"):
        trust.demands(Reference.parse("h.example/other/verl:v1"))
    assert Trust((), trust.project).demands(Reference.parse("h.example/other/verl:v1")) == [[project]]


# --- the command -----------------------------------------------------------------------------------------


def pulled(matrix: Matrix, host: str, folder: Path, *words: str) -> Result:
    row = environment(matrix, A2_VLLM)
    tag = row.image_name(host).rpartition(":")[2]
    published(host, tag, config={"Labels": {ENVIRONMENT: row.id}})
    file = folder / "image.tar"
    file.unlink(missing_ok=True)
    result = run("pull", A2_VLLM, "--registry", f"{host}/Team", "--save", str(file), *words)
    assert file.exists() == (result.returncode == 0)
    return result


def test_an_unsigned_image_is_refused_however_the_prefix_is_written(matrix: Matrix, key: Path, tmp_path: Path) -> None:
    with in_memory() as (host, _):
        for prefix in (f"{host}/Team", f"{host}/team/", host):
            refused = pulled(matrix, host, tmp_path, "--verify-key", f"{prefix}={key}")
            assert refused.returncode == 6 and "has no signature" in refused.stderr, refused.stderr
        other = pulled(matrix, host, tmp_path, "--verify-key", f"registry.example.com={key}")
        assert other.returncode == 6 and "--allow-unsigned" in other.stderr
        succeeded(pulled(matrix, host, tmp_path, "--verify-key", f"registry.example.com={key}", "--allow-unsigned"))
        # a name that has a key needs its signature even then
        assert pulled(matrix, host, tmp_path, "--verify-key", str(key), "--allow-unsigned").returncode == 6
        name = Reference.parse(environment(matrix, A2_VLLM).image_name(f"{host}/Team"))
        registry = Registry(host, back_off=0)
        sign(registry, name, registry.manifest("verl", name.wanted), read_private(key.with_suffix(".key"), b"x"))
        succeeded(pulled(matrix, host, tmp_path, "--verify-key", f"{host}/Team={key}"))
