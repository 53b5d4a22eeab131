"""Collects who owns the files of an image: packages of the system, Python packages, sources, and the plan."""

from __future__ import annotations

import fnmatch
import os
import re
import site
import stat
import sysconfig
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from installed import MADE, distributions, listed
from system import system_files

BASE, PLAN = "base image", "plan"
_BYTE_CODE = "byte code"


class Owner(NamedTuple):
    """What a file is, who says so, and how that is checked: by a digest, or by a rule with a value."""

    origin: str
    algorithm: str = ""
    digest: bytes | None = None
    rule: str = ""
    value: str = ""


class Roots:
    """The image and its base image as folders, the files of the image, and where Python installs packages in both."""

    def __init__(self, root: str, base: str, files: Mapping[str, os.stat_result]) -> None:
        self.root, self.base, self.files = root, base, files
        self.sites, self.prefix = [*site.getsitepackages()], sysconfig.get_path("data")
        self._known: dict[str, str] = {"": ""}

    def real(self, path: str) -> str:
        """Return where links lead within the image; an absolute one begins at its root."""
        if path not in self._known:
            # a link that leads to itself leads nowhere
            self._known[path] = path
            self._known[path] = self._followed(path)
        return self._known[path]

    def _followed(self, path: str) -> str:
        folder, _, name = path.rpartition("/")
        above = self.real(folder)
        if name in {"", "."}:
            return above
        if name == "..":
            return above.rpartition("/")[0]
        here = f"{above}/{name}"
        status = self.files.get(here)
        if not (stat.S_ISLNK(status.st_mode) if status else Path(self.root + here).is_symlink()):
            return here
        target = str(Path(self.root + here).readlink())
        return self.real(target if target.startswith("/") else f"{above}/{target}")

    def placed(self, path: str) -> str:
        """Return a path in its real folder; its last part may be a link."""
        folder, _, name = path.rpartition("/")
        return f"{self.real(folder)}/{name}"

    def read(self, path: str, *, of_base: bool = False) -> bytes:
        """Return the content of a file, or nothing where there is none; it does not follow a link out of the image."""
        file = Path(self.base + path if of_base else self.root + self.real(path))
        return file.read_bytes() if file.is_file() else b""


class Owners:
    def __init__(self, roots: Roots, job: dict[str, Any]) -> None:
        self.roots, self.job = roots, job
        self.table: dict[str, list[Owner]] = defaultdict(list)
        self.base_packages = set(distributions([roots.base + folder for folder in roots.sites]))
        self._of_plan()
        self._of_sources()
        for package, path, algorithm, digest, rule in system_files(roots, job["system_packages"]):
            owner = Owner(f"system package: {package}", algorithm, digest, rule)
            self.table[roots.placed(path)].append(owner)
        self._of_python()

    def by_rule(self, path: str) -> Iterator[Owner]:
        """Yield the owners by pattern of a file."""
        for item in self.job["own"]:
            if fnmatch.fnmatchcase(path, item["path"]):
                yield Owner(PLAN, rule=item["rule"], value=item["value"])
        yield from self._in_tree(path)
        if path.endswith(".pyc"):
            yield Owner(_BYTE_CODE, rule="byte code")

    def _of_plan(self) -> None:
        for path, digest in self.job["texts"].items():
            self.table[path].append(Owner(PLAN, "sha256", bytes.fromhex(digest)))
        known = " ".join({*self.base_packages, *self.job["tools"]})
        self.table[f"{self.job['home']}/base.txt"].append(Owner(PLAN, rule="packages", value=known))

    def _of_sources(self) -> None:
        for name, files in self.job["hashes"].items():
            for file, digest in files.items():
                path = f"{self.job['sources']}/{name}/{file}"
                self.table[path].append(Owner(f"source tree: {name}", "sha256", bytes.fromhex(digest)))

    def _of_python(self) -> None:
        """Owner the files of the packages that the plan names. A package installs into the prefix of Python only."""
        found = distributions([self.roots.root + folder for folder in self.roots.sites])
        wanted = {*self.job["packages"], *self.base_packages}
        for name, item in found.items():
            for file in listed(item) if name in wanted else ():
                path = self.roots.placed(file.path[len(self.roots.root) :])
                if not path.startswith(f"{self.roots.prefix}/"):
                    continue
                if file.digest:
                    self.table[path].append(Owner(f"Python package: {name}", "sha256", file.digest))
                elif path.endswith(".dist-info/RECORD"):
                    self.table[path].append(Owner(f"Python package: {name}", rule="file"))

    def is_made_in_tree(self, path: str) -> bool:
        return MADE.search(self._within(path)[1]) is not None

    def _within(self, path: str) -> tuple[str, str]:
        """Return the component whose source tree a file is in, and its name there."""
        sources = f"{self.job['sources']}/"
        name, _, file = path[len(sources) :].partition("/") if path.startswith(sources) else ("", "", "")
        return name, file

    def _in_tree(self, path: str) -> Iterator[Owner]:
        name, file = self._within(path)
        if name not in self.job["kept"]:
            return
        origin = f"source tree: {name}"
        if name in self.job["unknown"]:
            yield Owner(f"source tree without its archive: {name}", rule="any")
        elif any(fnmatch.fnmatchcase(path, pattern) for pattern in self.job["products"]):
            yield Owner(origin, rule="any")
        elif re.search(r"(^|/)[^/]+\.egg-info/", file):
            yield Owner(origin, rule="metadata")
        elif file.startswith(".git/"):
            yield Owner(origin, rule="git", value=file)
        else:
            yield Owner(origin, rule="link within", value=f"{self.job['sources']}/{name}")
