"""The network settings of the host that a build gets, and that their values are quoted for the shell."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from envbuilder.network import Network, host_network


def certificate(body: str) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----"


def environment_of(secret: str) -> dict[str, str]:
    shown = subprocess.run(
        ["bash", "-c", f"{secret}\nenv -0"], capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"}
    )
    return dict(line.split("=", 1) for line in shown.stdout.split("\0") if "=" in line)


def test_the_settings_of_the_host_are_read(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text(certificate("AAAA"))
    found = host_network(
        {
            "HTTPS_PROXY": "http://p:1",
            "no_proxy": "a,b",
            "SSL_CERT_FILE": str(bundle),
            "PIP_INDEX_URL": "http://i/",
            "HOME": "/",
        }
    )
    assert found.proxies == {"https_proxy": "http://p:1", "no_proxy": "a,b"}
    assert (found.ca_bundle, found.index_url) == (bundle, "http://i/")
    variables = environment_of(found.secrets()["network"])
    assert variables["https_proxy"] == variables["HTTPS_PROXY"] == "http://p:1"
    assert variables["UV_DEFAULT_INDEX"] == variables["PIP_INDEX_URL"] == "http://i/"
    assert variables["SSL_CERT_FILE"] == "/run/secrets/ca"


def test_the_configuration_files_of_pip_and_uv_are_read(tmp_path: Path) -> None:
    (tmp_path / ".config/pip").mkdir(parents=True)
    (tmp_path / ".config/pip/pip.conf").write_text(
        "[global]\nindex-url = https://pip.example/simple\ntrusted-host = pip.example\n"
        "extra-index-url = file:///somewhere\n  https://more.example/simple\n"
    )
    (tmp_path / ".netrc").write_text("machine pip.example login me password hush\n")
    found = host_network({"HOME": str(tmp_path)})
    assert (found.index_url, found.extra_indexes) == ("https://pip.example/simple", ("https://more.example/simple",))
    assert found.trusted_hosts == ("pip.example",)
    assert found.secrets()["netrc"].endswith("hush\n")
    assert environment_of(found.secrets()["network"])["NETRC"] == "/run/secrets/netrc"
    (tmp_path / ".config/uv").mkdir()
    (tmp_path / ".config/uv/uv.toml").write_text(
        '[[index]]\nurl = "https://uv.example/simple"\ndefault = true\n[[index]]\nurl = "https://b.example/simple"\n'
    )
    found = host_network({"HOME": str(tmp_path)})
    assert (found.index_url, found.extra_indexes) == ("https://uv.example/simple", ("https://b.example/simple",))
    assert host_network({"HOME": str(tmp_path), "PIP_INDEX_URL": "https://v.example"}).index_url == "https://v.example"


def test_indexes_are_read_as_uv_and_pip_read_them(tmp_path: Path) -> None:
    named = host_network(
        {"HOME": "/", "UV_DEFAULT_INDEX": "corp=https://a.example/s", "UV_INDEX": "b=https://b.example/?x=1"}
    )
    assert (named.index_url, named.extra_indexes) == ("https://a.example/s", ("https://b.example/?x=1",))
    (tmp_path / "uv").mkdir()
    (tmp_path / "uv" / "uv.toml").write_text(
        'allow-insecure-host = ["c.example"]\n[[index]]\nurl = "https://c.example"\n'
        '[[index]]\nurl = "https://d.example"\nname = "d"\nexplicit = true\n'
    )
    found = host_network({"HOME": "/", "XDG_CONFIG_HOME": str(tmp_path)})
    assert (found.trusted_hosts, found.extra_indexes) == (("c.example",), ("https://c.example",))
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "pip.conf").write_text("[global]\nindex-url = https://e.example\n")
    here = {"HOME": "/", "XDG_CONFIG_HOME": str(tmp_path)}
    assert host_network(here).index_url == "https://e.example"
    assert host_network({**here, "PIP_CONFIG_FILE": "/dev/null"}).index_url is None


def test_the_ca_bundle_of_pip_wins_over_that_of_the_system(tmp_path: Path) -> None:
    for name in ("pip.pem", "variable.pem"):
        (tmp_path / name).write_text(certificate("AAAA"))
    (tmp_path / ".pip").mkdir()
    (tmp_path / ".pip" / "pip.conf").write_text(f"[global]\ncert = {tmp_path}/pip.pem\n")
    here = {"HOME": str(tmp_path)}
    assert host_network(here).ca_bundle == tmp_path / "pip.pem"
    assert host_network({**here, "PIP_CERT": str(tmp_path / "variable.pem")}).ca_bundle == tmp_path / "variable.pem"


def test_a_missing_ca_bundle_is_ignored(tmp_path: Path) -> None:
    found = host_network({"SSL_CERT_FILE": str(tmp_path / "none"), "HOME": "/"})
    assert found.ca_bundle is None or found.ca_bundle.is_file()


@pytest.mark.parametrize("value", ["http://u:p'; touch pwned; '@x", "$(touch pwned)", "a b", "`id`", "\\", '"'])
def test_values_are_quoted_for_the_shell(value: str) -> None:
    variables = environment_of(Network(proxies={"http_proxy": value}, index_url=value).secrets()["network"])
    assert variables["http_proxy"] == value
    assert variables["PIP_INDEX_URL"] == value


def test_no_settings_set_no_variables() -> None:
    variables = environment_of(Network().secrets()["network"])
    assert not {"http_proxy", "PIP_INDEX_URL", "SSL_CERT_FILE"} & set(variables)


def test_only_the_certificates_of_a_ca_bundle_are_kept(tmp_path: Path) -> None:
    one, two = certificate("AAAA"), certificate("BBB=")
    (tmp_path / "ca").write_text(f"Subject: Müller\n{one}\n# again\n{one}\nno certificate\n{two}")
    secrets = Network(ca_bundle=tmp_path / "ca").secrets()
    assert secrets["ca"] == f"{one}\n{two}\n"
    assert set(secrets) == {"network", "ca"}


def test_a_ca_bundle_larger_than_a_secret_is_split_between_certificates(tmp_path: Path) -> None:
    certificates = [certificate(f"{number:06}" + "A" * 1990) for number in range(600)]
    (tmp_path / "ca").write_text("\n".join(certificates))
    secrets = Network(ca_bundle=tmp_path / "ca").secrets()
    parts = [secrets[name] for name in ("ca", "ca-2", "ca-3")]
    assert all(len(part) <= 500 * 1024 for part in parts)
    assert "".join(parts) == "\n".join(certificates) + "\n"
    assert "cat /run/secrets/ca /run/secrets/ca-2 /run/secrets/ca-3 > /dev/shm/ca" in secrets["network"]
    assert "export SSL_CERT_FILE=/dev/shm/ca" in secrets["network"]


@pytest.mark.parametrize("mirror", ["https://mirror.example/all", "http://u:p&#@m.example/"])
def test_apt_uses_a_mirror_without_changing_etc(tmp_path: Path, mirror: str) -> None:
    """Run the shell function of the secret with an apt-get that prints the source lists it gets."""
    lists, bin_ = tmp_path / "etc/apt/sources.list.d", tmp_path / "bin"
    lists.mkdir(parents=True)
    bin_.mkdir()
    (lists.parent / "sources.list").write_text("deb [arch=arm64] http://deb.debian.org/debian bookworm main\n")
    (lists / "more.sources").write_text("URIs: https://ports.ubuntu.com/ubuntu-ports\nSuites: jammy\n")
    (lists / "other.list").write_text("deb https://vendor.example/tools stable main\n")
    (bin_ / "apt-get").write_text(
        '#!/bin/bash\nfor word; do [[ $word == Dir::Etc::SourceParts=* ]] && cat "${word#*=}"/*; done\nexit 3\n'
    )
    (bin_ / "apt-get").chmod(0o755)
    secret = Network(apt_mirror=mirror).secrets()["network"].replace("/etc/apt", str(lists.parent))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    result = subprocess.run(
        ["bash", "-c", f"{secret}\napt-get update"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": f"{bin_}:/usr/bin:/bin", "TMPDIR": str(scratch)},
    )
    at = mirror.rstrip("/")
    assert result.returncode == 3, "the function returns the exit code of apt-get"
    assert result.stdout.splitlines() == [
        f"URIs: {at}/ubuntu-ports", "Suites: jammy", "deb https://vendor.example/tools stable main",
        f"deb [arch=arm64] {at}/debian bookworm main",
    ]  # fmt: skip
    assert list(scratch.iterdir()) == []
    assert "mirror" not in (lists.parent / "sources.list").read_text()
