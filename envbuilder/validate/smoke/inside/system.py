"""Reads the files of system packages, with the checksums that the database of dpkg or rpm has for them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from owners import Roots

_STATUS, INFO = "/var/lib/dpkg/status", "/var/lib/dpkg/info"
_RPM = ("/usr/lib/sysimage/rpm", "/var/lib/rpm")
# what dpkg keeps of an installed package
_KEPT = (
    "conffiles", "config", "list", "md5sums", "postinst", "postrm", "preinst", "prerm", "shlibs", "symbols",
    "templates", "triggers",
)  # fmt: skip
_ALGORITHMS = {32: "md5", 40: "sha1", 64: "sha256"}


class SystemFile(NamedTuple):
    """A file of a package: its checksum, or the rule that it has to follow."""

    package: str
    path: str
    algorithm: str = ""
    digest: bytes | None = None
    rule: str = ""


class SystemPackage(NamedTuple):
    name: str
    arch: str
    version: str
    # the names in its dependencies, and those that it provides
    needs: frozenset[str]
    provides: frozenset[str]
    # settings of the package with their MD5
    settings: tuple[tuple[str, str], ...]

    def names(self) -> tuple[str, str]:
        """Return how the names of its files in the database of dpkg begin."""
        return self.name, f"{self.name}:{self.arch}"


def system_files(roots: Roots, wanted: list[str]) -> Iterator[SystemFile]:
    """Yield the files of packages that the base image has, or that the wanted ones need."""
    yield from _of_dpkg(roots, wanted)
    yield from _of_rpm(roots)


def packages(status: str) -> dict[str, SystemPackage]:
    """Return the packages of a database of dpkg."""
    found = {}
    for text in re.split(r"\n\n+", status):
        field = dict(re.findall(r"^([A-Za-z-]+):[ ]?((?:.*)(?:\n[ \t].*)*)", text, re.MULTILINE))
        if not field.get("Package") or not field.get("Status", "").endswith(" installed"):
            continue
        needs = _names(f"{field.get('Depends', '')}, {field.get('Pre-Depends', '')}")
        settings = re.findall(r"^ (/\S.*?) ([0-9a-f]{32})", field.get("Conffiles", ""), re.MULTILINE)
        name, arch = field["Package"], field.get("Architecture", "")
        made = SystemPackage(
            name, arch, field.get("Version", ""), needs, _names(field.get("Provides", "")), tuple(settings)
        )
        found[f"{name}:{arch}"] = made
    return found


def _names(relations: str) -> frozenset[str]:
    return frozenset(re.findall(r"(?:^|[,|])\s*([a-z0-9][a-z0-9+.-]*)", relations))


def needed(new: list[SystemPackage], wanted: list[str]) -> list[SystemPackage]:
    """Return the packages among the new ones that the wanted ones are, or depend on."""
    found: list[SystemPackage] = []
    names = set(wanted)
    while more := [item for item in new if item not in found and names & {item.name, *item.provides}]:
        found += more
        names = {name for item in more for name in item.needs}
    return found


def own(roots: Roots, wanted: list[str]) -> tuple[list[SystemPackage], list[SystemPackage]]:
    """Return the packages that are as in the base image, and those that the build has installed or renewed."""
    before = packages(roots.read(_STATUS, of_base=True).decode("utf-8", "replace"))
    after = packages(roots.read(_STATUS).decode("utf-8", "replace"))
    kept = [item for key, item in after.items() if key in before and before[key].version == item.version]
    others = [(key, item) for key, item in after.items() if item not in kept]
    renewed = [item for key, item in others if key in before]
    return kept, [*renewed, *needed([item for key, item in others if key not in before], wanted)]


def _of_dpkg(roots: Roots, wanted: list[str]) -> Iterator[SystemFile]:
    kept, made = own(roots, wanted)
    for is_base, items in ((True, kept), (False, made)):
        for item in items:
            yield from _files(roots, item, is_base)


def _files(roots: Roots, package: SystemPackage, is_base: bool) -> Iterator[SystemFile]:
    """Yield the files of a package; what the base image lists is read there, where no layer above can change it.

    Those of the base image's own packages are in it, or were left out of it.
    """
    summed = {}
    for name in package.names():
        for line in roots.read(f"{INFO}/{name}.md5sums", of_base=is_base).decode("utf-8", "replace").splitlines():
            digest, _, path = line.partition("  ")
            summed[f"/{path}"] = digest
    summed |= dict(package.settings) if not is_base else {}
    for path, digest in summed.items():
        if not (is_base and os.path.lexists(roots.base + path)):
            yield SystemFile(package.name, path, "md5", bytes.fromhex(digest))
    for name in package.names():
        for path in roots.read(f"{INFO}/{name}.list", of_base=is_base).decode("utf-8", "replace").splitlines():
            if path not in summed and not (is_base and os.path.lexists(roots.base + path)):
                yield SystemFile(package.name, path, rule="link")
        # dpkg removes folders that are gone from the lists of other packages
        for ending, rule in {"list": "fewer lines"}.items() if is_base else dict.fromkeys(_KEPT, "any").items():
            yield SystemFile(package.name, f"{INFO}/{name}.{ending}", rule=rule)


def _of_rpm(roots: Roots) -> Iterator[SystemFile]:
    folder = next((path for path in _RPM if Path(roots.root + path).is_dir()), None)
    if folder is None or shutil.which("rpm") is None:
        return
    with tempfile.TemporaryDirectory() as copy:
        # the database is opened for writing even to read it
        shutil.copytree(roots.root + folder, f"{copy}/rpm")
        form = "[%{=NAME}\t%{FILEDIGESTS}\t%{FILENAMES}\n]"
        command = ["rpm", "--dbpath", f"{copy}/rpm", "-qa", "--queryformat", form]
        text = subprocess.run(command, capture_output=True, check=True).stdout.decode("utf-8", "replace")  # noqa: S603
    for line in text.splitlines():
        package, digest, path = line.split("\t", 2)
        if digest in {"", "(none)"}:
            yield SystemFile(package, path, rule="link")
        else:
            yield SystemFile(package, path, _ALGORITHMS.get(len(digest), "sha512"), bytes.fromhex(digest))
