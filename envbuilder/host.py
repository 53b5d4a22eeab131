"""This machine: what it is and what its user has set up, read and never changed."""

from __future__ import annotations

import configparser
import os
import platform
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")
# where programs keep the bundle that they trust; the first that is set or exists is the host's
_CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE")
_CA_FILES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
_CA_IN_BUILD = "/run/secrets/ca"
_CA_USERS = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE")


def arch() -> str:
    machine = platform.machine()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


class Network(NamedTuple):
    """How a build reaches the outside: everything here may hold a credential, so it travels as a secret."""

    ca_bundle: Path | None = None
    proxies: Mapping[str, str] = {}
    index_url: str | None = None

    def secret(self) -> str:
        """A shell file that every RUN of a build reads."""
        lines = [f"export {name}={shlex.quote(value)}" for name, value in sorted(self.proxies.items())]
        lines += [f"export {name.upper()}={shlex.quote(value)}" for name, value in sorted(self.proxies.items())]
        if self.index_url:
            quoted = shlex.quote(self.index_url)
            lines += [f"export PIP_INDEX_URL={quoted} UV_DEFAULT_INDEX={quoted}"]
        if self.ca_bundle:
            lines += [f"export {name}={_CA_IN_BUILD}" for name in _CA_USERS]
        # the base image may belong to its distribution; in a container there is nothing to protect from us
        lines += ["export PIP_BREAK_SYSTEM_PACKAGES=1 UV_BREAK_SYSTEM_PACKAGES=1"]
        return "\n".join(lines) + "\n"


def network(variables: Mapping[str, str] = os.environ) -> Network:
    """What works on the host works in the build without being asked for."""
    lowered = {name.lower(): value for name, value in variables.items()}
    proxies = {name: lowered[name] for name in _PROXIES if lowered.get(name)}
    named = [variables[name] for name in _CA_VARIABLES if variables.get(name)]
    bundle = next((Path(name) for name in (*named, *_CA_FILES) if Path(name).is_file()), None)
    return Network(bundle, proxies, configured_index(variables))


def configured_index(variables: Mapping[str, str] = os.environ) -> str | None:
    """The index that pip or uv is told to use, by variables or by pip's own files."""
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"):
        if variables.get(name):
            return variables[name]
    config = configparser.ConfigParser(interpolation=None)
    home = Path(variables.get("HOME", "/"))
    files = [Path("/etc/pip.conf"), home / ".pip/pip.conf", home / ".config/pip/pip.conf"]
    config.read([*files, variables.get("PIP_CONFIG_FILE", "")])
    for section in ("global", "install"):
        if config.has_option(section, "index-url"):
            return config.get(section, "index-url")
    return None
