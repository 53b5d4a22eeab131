"""Keys that sign images: new keys, keys of other programs, and files that are not keys."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from envbuilder.cli.arguments import ProjectKey
from envbuilder.cli.passwords import trusted, trusted_for_bundles
from envbuilder.errors import UsageError
from envbuilder.signing.keys import make_keys, read_private, read_public
from tests.conftest import run, succeeded

PASSWORD = b"correct horse"


@pytest.fixture(scope="module")
def pair() -> tuple[bytes, bytes]:
    return make_keys(PASSWORD)


def written(folder: Path, content: bytes, name: str = "a.key") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_a_signature_is_accepted_only_by_its_key(pair: tuple[bytes, bytes], tmp_path: Path) -> None:
    private = read_private(written(tmp_path, pair[0]), PASSWORD)
    public = read_public(written(tmp_path, pair[1], "a.pub"))
    assert public.fingerprint == private.public.fingerprint and len(public.fingerprint) == 16
    signature = private.sign(b"content")
    assert public.accepts(signature, b"content")
    assert not public.accepts(signature, b"contents") and not public.accepts(signature[:-1], b"content")
    other = read_public(written(tmp_path, make_keys(PASSWORD)[1], "b.pub"))
    assert not other.accepts(signature, b"content")


def test_a_wrong_password_is_named(pair: tuple[bytes, bytes], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is wrong"):
        read_private(written(tmp_path, pair[0]), b"battery staple")


def test_the_newer_name_of_the_same_file_is_read(pair: tuple[bytes, bytes], tmp_path: Path) -> None:
    assert read_private(written(tmp_path, pair[0].replace(b"COSIGN", b"SIGSTORE")), PASSWORD)


def test_a_key_without_a_password_is_read(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    assert read_private(written(tmp_path, text), b"").sign(b"content")


def broken(pair: tuple[bytes, bytes], **changes: object) -> bytes:
    """Return the private key with other parameters."""
    lines = pair[0].decode().splitlines()
    document = json.loads(base64.b64decode("".join(lines[1:-1])))
    document["kdf"]["params"].update(changes)
    return "\n".join([lines[0], base64.b64encode(json.dumps(document).encode()).decode(), lines[-1]]).encode()


@pytest.mark.parametrize("changes", [{"N": 2**30}, {"N": -1}, {"r": 10**6}, {"p": "many"}])
def test_parameters_that_would_take_all_memory_are_refused(
    pair: tuple[bytes, bytes], tmp_path: Path, changes: dict[str, object]
) -> None:
    with pytest.raises(UsageError, match="is not a private key"):
        read_private(written(tmp_path, broken(pair, **changes)), PASSWORD)


@pytest.mark.parametrize("content", [b"", b"text", b"-----BEGIN ENCRYPTED COSIGN PRIVATE KEY-----\n%%%\n", b"\x00\xff"])
def test_a_file_that_is_not_a_key_is_named(tmp_path: Path, content: bytes) -> None:
    path = written(tmp_path, content)
    with pytest.raises(UsageError, match="is not a private key"):
        read_private(path, PASSWORD)
    with pytest.raises(UsageError, match="is not a public key"):
        read_public(path)


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048).public_key()
    path = written(tmp_path, key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(UsageError, match="signatures are made with ECDSA"):
        read_public(path)


def test_the_command_makes_a_pair_and_never_replaces_one(tmp_path: Path) -> None:
    name = tmp_path / "team"
    made = run("keys", "new", str(name), ENVBUILDER_KEY_PASSWORD=PASSWORD.decode())
    assert made.returncode == 0 and made.stdout == f"{name}.pub\n", made.stderr
    assert stat.S_IMODE(Path(f"{name}.key").stat().st_mode) == 0o600
    assert read_private(Path(f"{name}.key"), PASSWORD).public.fingerprint in made.stderr
    before = Path(f"{name}.key").read_bytes()
    again = run("keys", "new", str(name), ENVBUILDER_KEY_PASSWORD="x")  # noqa: S106
    assert again.returncode == 1 and "exists" in again.stderr
    assert Path(f"{name}.key").read_bytes() == before


def test_a_missing_key_is_named_before_the_pull(tmp_path: Path) -> None:
    result = run(
        "pull", "--hw", "a3", "--registry", "localhost:9/x", "--verify-key", f"localhost={tmp_path / 'no.pub'}"
    )
    assert result.returncode == 2 and "there is no file" in result.stderr


def test_the_setting_has_the_whole_path(
    pair: tuple[bytes, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path, pair[1], "team.pub")
    succeeded(run("config", "set", "verify-key", "registry.example.com/team=team.pub", XDG_CONFIG_HOME=str(tmp_path)))
    text = (tmp_path / "envbuilder" / "envbuilder.toml").read_text()
    assert f"registry.example.com/team={tmp_path / 'team.pub'}" in text


def test_a_folder_may_have_any_name(pair: tuple[bytes, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a=b"
    folder.mkdir()
    monkeypatch.chdir(folder)
    written(folder, pair[1], "team.pub")
    fingerprint = read_public(folder / "team.pub").fingerprint
    for text in ("registry.example.com/team=team.pub", "team.pub"):
        succeeded(run("config", "set", "verify-key", text, XDG_CONFIG_HOME=str(tmp_path)))
        shown = succeeded(run("config", "--json", XDG_CONFIG_HOME=str(tmp_path)))
        (value,) = next(item["value"] for item in json.loads(shown.stdout)["settings"] if item["name"] == "verify-key")
        (found,) = trusted((value,)).own
        assert (found.prefix, found.key.fingerprint) == (text.rpartition("=")[0], fingerprint)


@pytest.mark.parametrize("most", [0, 100, 500])
def test_a_full_disk_leaves_no_part_of_a_key(tmp_path: Path, most: int) -> None:
    """The limit of a file fails like a full disk: the private key, or only the public one, cannot be written."""
    program = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}));"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}from envbuilder.cli import main; main()", "keys", "new", str(tmp_path / "a")],
        capture_output=True, text=True, check=False, env={**os.environ, "ENVBUILDER_KEY_PASSWORD": "x"},
    )  # fmt: skip
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_key_of_a_project_does_not_open_bundles_for_a_user_with_keys(
    pair: tuple[bytes, bytes], tmp_path: Path
) -> None:
    key = tmp_path / "team.pub"
    written(tmp_path, pair[1], key.name)
    bundle, of_images, of_project = tmp_path / "x.tar", f"registry.example.com/team={key}", ProjectKey(key)
    assert len(trusted_for_bundles((of_project,), bundle)) == 1
    with pytest.raises(UsageError, match="none for bundles"):
        trusted_for_bundles((of_images, of_project), bundle)
