"""The network settings of this host (proxies, certificates, package indexes), and those of a build."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from envbuilder import paths

# the folder of a build or a bundle from which everything is installed without a network
OFFLINE = "offline"

_PROXIES = ("http_proxy", "https_proxy", "no_proxy", "all_proxy")
# variables and files of trusted certificates; the first existing file is used
_CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE")
_CA_FILES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
CA_USERS = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE")
# the name that uv allows before the address of an index
_INDEX_NAME = re.compile(r"^[\w.-]+=(?=\w+://)")
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----")
# the largest secret that BuildKit accepts
_SECRET_LIMIT = 500 * 1024

# a function that makes apt-get use other sources or certificates without changing /etc/apt
_APT_GET = """\
apt-get() {{
  local lists code
  lists=$(mktemp --directory)
  {fill}
  command apt-get --option Dir::Etc::SourceList=/dev/null --option Dir::Etc::SourceParts="$lists" {options} "$@"
  code=$?
  rm -rf "$lists"
  return "$code"
}}"""

_FROM_MIRROR = """\
cp /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources "$lists" 2>/dev/null
  find "$lists" -type f -exec sed --in-place --regexp-extended {rewrite} '{{}}' +"""
# the files were compared with their digests, so the repository needs no signature
_FROM_FOLDER = 'echo "deb [trusted=yes] file:{folder} ./" > "$lists"/offline.list'
# used in every installation: uv takes the best version of all indexes, as pip does
UV_SETTINGS = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
# uv has no variable for this; without it, uv uses cached pages of an index even if it is offline
UV_CONFIG, UV_WITHOUT_INDEX = "uv.toml", "no-index = true\n"


def installing_from(offline: str, wheels: str) -> dict[str, str]:
    """Return the variables that make pip and uv install only from the wheels in this folder."""
    return {
        "UV_CONFIG_FILE": f"{offline}/{UV_CONFIG}", "UV_FIND_LINKS": wheels, "UV_OFFLINE": "1",
        "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wheels, "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }  # fmt: skip


class Network(NamedTuple):
    """The network settings of a build. Any of them may hold a credential, so they are passed as secrets."""

    ca_bundle: Path | None = None
    proxies: Mapping[str, str] = {}
    index_url: str | None = None
    extra_indexes: tuple[str, ...] = ()
    trusted_hosts: tuple[str, ...] = ()
    netrc: Path | None = None
    apt_mirror: str | None = None
    # the folder with `wheels` and `debs` from which a build without a network installs
    offline: str | None = None

    def secrets(self) -> dict[str, str]:
        """Return the secrets of a build: `network`, a shell file that every RUN reads, the certificates, and netrc."""
        parts = self._certificates()
        passwords = {"netrc": self.netrc.read_text(encoding="utf-8", errors="replace")} if self.netrc else {}
        return {"network": self._shell_file(tuple(parts)), **parts, **passwords}

    def index_variables(self) -> dict[str, str]:
        """Return the variables of pip and uv for the package indexes; each program reads only its own."""
        settings = (
            (("PIP_INDEX_URL", "UV_DEFAULT_INDEX"), self.index_url or ""),
            (("PIP_EXTRA_INDEX_URL", "UV_INDEX"), " ".join(self.extra_indexes)),
            (("PIP_TRUSTED_HOST", "UV_INSECURE_HOST"), " ".join(self.trusted_hosts)),
        )
        return {name: value for names, value in settings for name in names if value}

    def _shell_file(self, parts: tuple[str, ...]) -> str:
        lines = [f"export {name}={shlex.quote(value)}" for name, value in sorted(self.proxies.items())]
        lines += [f"export {name.upper()}={shlex.quote(value)}" for name, value in sorted(self.proxies.items())]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in self.index_variables().items()]
        if self.netrc:
            lines += ["export NETRC=/run/secrets/netrc"]
        bundle = "/run/secrets/ca"
        if len(parts) > 1:
            # joined in memory, so that it does not become part of a layer
            bundle, files = "/dev/shm/ca", " ".join(f"/run/secrets/{name}" for name in parts)  # noqa: S108
            lines += [f"[ -s {bundle} ] || cat {files} > {bundle}"]
        if parts:
            lines += [f"export {name}={bundle}" for name in CA_USERS]
        if self.apt_mirror:
            mirror = re.sub(r"([\\&#])", r"\\\1", self.apt_mirror.rstrip("/"))
            rewrite = shlex.quote(f"s#https?://[^/ ]+/(debian|ubuntu)#{mirror}/\\1#")
            options = f"--option Acquire::https::CaInfo={bundle}" if parts else ""
            lines += [_APT_GET.format(fill=_FROM_MIRROR.format(rewrite=rewrite), options=options)]
        if self.offline:
            variables = installing_from(self.offline, f"{self.offline}/wheels")
            lines += [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
            lines += [_APT_GET.format(fill=_FROM_FOLDER.format(folder=f"{self.offline}/debs"), options="")]
        return "\n".join(lines) + "\n"

    def _certificates(self) -> dict[str, str]:
        """Return the CA bundle in secrets of the allowed size, each certificate once and without comments."""
        if self.ca_bundle is None:
            return {}
        text = self.ca_bundle.read_text(encoding="utf-8", errors="replace")
        parts = [""]
        for certificate in dict.fromkeys(_CERTIFICATE.findall(text)):
            if len(parts[-1]) + len(certificate) + 1 > _SECRET_LIMIT:
                parts.append("")
            parts[-1] += certificate + "\n"
        return {f"ca-{number}" if number > 1 else "ca": part for number, part in enumerate(parts, 1)}


def offline_network() -> Network:
    """Return the settings of a build that has the folder OFFLINE mounted."""
    return Network(offline=f"/run/envbuilder/{OFFLINE}")


def host_network(variables: Mapping[str, str] = os.environ) -> Network:
    """Return the network settings of this host, so that a build can use the same ones."""
    lowered = {name.lower(): value for name, value in variables.items()}
    proxies = {name: lowered[name] for name in _PROXIES if lowered.get(name)}
    named = [*(variables.get(name) for name in _CA_VARIABLES), _from_pip(variables, "cert"), *_CA_FILES]
    bundle = next((path for path in map(paths.expanded, filter(None, named)) if path.is_file()), None)
    netrc = Path(variables.get("NETRC") or Path(variables.get("HOME", "/")) / ".netrc")
    extra = _setting(variables, ("UV_INDEX", "UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL"), "extra-index-url")
    trusted = _setting(variables, ("UV_INSECURE_HOST", "PIP_TRUSTED_HOST"), "trusted-host")
    return Network(
        ca_bundle=bundle,
        proxies=proxies,
        index_url=configured_index(variables),
        # a folder of this machine does not exist in a build
        extra_indexes=tuple(url for url in map(_unnamed, (extra or "").split()) if not url.startswith("file:")),
        trusted_hosts=tuple((trusted or "").split()),
        netrc=netrc if netrc.is_file() else None,
    )


def configured_index(variables: Mapping[str, str] = os.environ) -> str | None:
    """Return the index that variables or configuration files set for pip or uv."""
    found = _setting(variables, ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"), "index-url")
    return _unnamed(found) if found else None


def _unnamed(index: str) -> str:
    """Return an index without its name, which only uv accepts."""
    return _INDEX_NAME.sub("", index)


def _setting(variables: Mapping[str, str], names: tuple[str, ...], option: str) -> str | None:
    values = [variables[name] for name in names if variables.get(name)]
    return next(iter(values), None) or _from_uv(variables, option) or _from_pip(variables, option)


def _from_pip(variables: Mapping[str, str], option: str) -> str | None:
    config = configparser.ConfigParser(interpolation=None)
    last = variables.get("PIP_CONFIG_FILE", "")
    # with this value pip reads no configuration file
    if last != os.devnull:
        own = Path(variables.get("HOME", "/")) / ".pip/pip.conf"
        config.read(["/etc/xdg/pip/pip.conf", "/etc/pip.conf", own, _config_home(variables) / "pip/pip.conf", last])
    sections = [name for name in ("install", "global") if config.has_option(name, option)]
    return config.get(sections[0], option) if sections else None


def _from_uv(variables: Mapping[str, str], option: str) -> str | None:
    """Return an option of uv.toml, which has the options of pip or a list of indexes."""
    files = [variables.get("UV_CONFIG_FILE") or _config_home(variables) / "uv/uv.toml", "/etc/uv/uv.toml"]
    own_name = "allow-insecure-host" if option == "trusted-host" else option
    for file in map(Path, files):
        if not file.is_file():
            continue
        settings = _toml(file)
        value = settings.get(own_name, settings.get("pip", {}).get(own_name))
        if option.endswith("index-url") and value is None:
            # an explicit index is only for packages that name it
            general = [item for item in settings.get("index", []) if not item.get("explicit", False)]
            wanted = option == "index-url"
            value = [item["url"] for item in general if item.get("default", False) == wanted]
        if value:
            return value if isinstance(value, str) else " ".join(value)
    return None


def _config_home(variables: Mapping[str, str]) -> Path:
    return Path(variables.get("XDG_CONFIG_HOME") or Path(variables.get("HOME", "/")) / ".config")


def _toml(file: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
