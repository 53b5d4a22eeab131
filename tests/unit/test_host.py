"""What a build is told of the host's network, and that no value of it can do more than that."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from envbuilder.host import Network, network
from envbuilder.pipeline import certificates


def environment_of(secret: str) -> dict[str, str]:
    shown = subprocess.run(
        ["bash", "-c", f"{secret}\nenv -0"], capture_output=True, text=True, check=True, env={"PATH": "/usr/bin:/bin"}
    )
    return dict(line.split("=", 1) for line in shown.stdout.split("\0") if "=" in line)


def test_the_hosts_settings_are_carried(tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("x")
    found = network(
        {
            "HTTPS_PROXY": "http://p:1",
            "no_proxy": "a,b",
            "SSL_CERT_FILE": str(bundle),
            "PIP_INDEX_URL": "http://i/",
            "HOME": "/",
        }
    )
    assert found == Network(bundle, {"https_proxy": "http://p:1", "no_proxy": "a,b"}, "http://i/")
    variables = environment_of(found.secret())
    assert variables["https_proxy"] == variables["HTTPS_PROXY"] == "http://p:1"
    assert variables["UV_DEFAULT_INDEX"] == variables["PIP_INDEX_URL"] == "http://i/"
    assert variables["SSL_CERT_FILE"] == "/run/secrets/ca"


def test_a_bundle_that_is_not_there_is_not_carried(tmp_path: Path) -> None:
    found = network({"SSL_CERT_FILE": str(tmp_path / "none"), "HOME": "/"})
    assert found.ca_bundle is None or found.ca_bundle.is_file()


@pytest.mark.parametrize("value", ["http://u:p'; touch pwned; '@x", "$(touch pwned)", "a b", "`id`", "\\", '"'])
def test_a_value_is_only_a_value(value: str) -> None:
    variables = environment_of(Network(proxies={"http_proxy": value}, index_url=value).secret())
    assert variables["http_proxy"] == value
    assert variables["PIP_INDEX_URL"] == value


def test_nothing_of_the_host_where_nothing_is_wanted() -> None:
    variables = environment_of(Network().secret())
    assert not {"http_proxy", "PIP_INDEX_URL", "SSL_CERT_FILE"} & set(variables)


def test_a_bundle_is_carried_without_its_prose() -> None:
    one, two = (f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----" for body in ("AAAA", "BBB="))
    assert certificates(f"Subject: Müller\n{one}\n# again\n{one}\nno certificate\n{two}") == f"{one}\n{two}\n"
