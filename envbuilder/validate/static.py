"""Judges what a target has: versions, files, variables, labels and leftovers. One script lists them there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from envbuilder.language import english
from envbuilder.validate.account import Accounted
from envbuilder.validate.expected import Expected
from envbuilder.validate.follow import follow
from envbuilder.validate.report import Account, Check
from envbuilder.validate.target import Target
from envbuilder.versions import public

_LIMIT = 15 * 60
_CACHES = ("/root/.cache/pip", "/root/.cache/uv", "/var/cache/apt/archives/*.deb", "/var/lib/apt/lists/*Packages*")
_CREDENTIALS = (
    "/root/.netrc", "/root/.git-credentials", "/root/.pypirc", "/root/.docker/config.json", "/root/.config/pip",
    "/root/.pip", "/etc/pip.conf", "/run/secrets/*",
)  # fmt: skip
# where a build mounts its secrets, an empty file stays
_MOUNTED = ("/run/secrets/ca", "/run/secrets/network")
_SUSPECTS = ("privileged", "writable", "owner", "key", "token")
_SECRET_NAME = re.compile(r"(^|_)(proxy|password|passwd|token|secret|credentials?)($|_)", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"://[^/\s:@]+:[^/\s@]+@")
# the most that a message names
_MOST = 5

Found = Mapping[str, Any]


def static_checks(target: Target, wanted: Expected, log: Path, accounted: Accounted | None = None) -> list[Check]:
    """Return the checks of what a target has; the account of its image has read its files already."""
    reads_files = accounted is None or accounted.unreadable is not None
    job = {
        "sources": wanted.sources,
        "trees": list(wanted.trees) if reads_files else [],
        "digests": reads_files,
        "vendor": wanted.vendor,
        "scripts": list(wanted.shell_setup),
        "libraries": [library for library, absent in wanted.libraries.items() if not absent],
        "products": list(wanted.products),
        "leftovers": [*_CACHES, *_CREDENTIALS] if wanted.is_image else [],
        "suspects": wanted.is_image,
    }
    ended = follow(target, "inventory.py", job, {}, _LIMIT, log)
    verdict = ended.verdict(english("listing"))
    if not verdict.passed:
        return [Check("static", "listing", "failed", verdict.message)]
    listing = next(line for line in ended.text.splitlines() if line.startswith('{"python"'))
    found = json.loads(listing)
    if accounted is None:
        return judge(wanted, found, target.variables())
    if accounted.unreadable is not None:
        return [*judge(wanted, found, target.variables()), _skipped("account", accounted.unreadable)]
    if accounted.account is None:
        return [Check("static", "account", "failed", accounted.problem or "")]
    return [*judge(wanted, _with_account(found, accounted.found), target.variables()), _account(accounted.account)]


def _with_account(found: dict[str, Any], accounted: Found) -> Found:
    """Return a listing with what the account says about the files, which no program of the image has read."""
    damaged = accounted["packages"]
    packages = {name: {**item, "damaged": damaged.get(name, {})} for name, item in found["packages"].items()}
    return {**found, "packages": packages, "trees": accounted["trees"], "base": accounted["base"]}


def _account(account: Account) -> Check:
    """Check that every file of an image comes from a part of its build, unchanged."""
    wrong = [f"{path} {reason}" for path, reason in account.unaccounted.items()]
    problem = english(
        "{number} of {total} files are unaccounted for: {files}",
        number=account.lost,
        total=account.files,
        files="; ".join(wrong[:_MOST]),
    )
    return _check("account", problem if account.lost else None)


def judge(wanted: Expected, found: Found, variables: Mapping[str, str]) -> list[Check]:
    """Compare what a target has with what is expected of it; `variables` are those that the image sets."""
    checks = [
        *_labels(wanted),
        _python(wanted, found),
        *_versions(wanted, found),
        _lock(wanted, found),
        _files(wanted, found),
        *_not_shadowed(wanted, found),
        _conflicts(wanted, found),
        *_variables(wanted, variables),
        *_set_up(wanted, found),
        *_libraries(wanted, found),
        *_products(wanted, found),
        *(_skipped(f"left out {title}", reason) for title, reason in wanted.left_out.items()),
    ]
    if wanted.is_image:
        checks += [
            _beyond_the_lock(wanted, found),
            *_trees(wanted, found),
            *_leftovers(found),
            _no_secret_variables(variables),
        ]
    return checks


def _check(name: str, problem: str | None) -> Check:
    return Check("static", name, "failed" if problem else "passed", problem or "")


def _skipped(name: str, reason: str) -> Check:
    return Check("static", name, "not-checked", reason)


def _version(found: Found, name: str) -> str | None:
    package = found["packages"].get(canonicalize_name(name))
    return package["version"] if package else None


def _labels(wanted: Expected) -> Iterator[Check]:
    for name, value in wanted.wanted_labels.items():
        if not wanted.is_image and not wanted.labels:
            yield _skipped(f"label {name}", english("this host has no record of an installation"))
            continue
        label = wanted.labels.get(name)
        problem = english(
            "the label is {found}, and the matrices now require {wanted}: it was built from other definitions",
            found=label,
            wanted=value,
        )
        yield _check(f"label {name}", None if label == value else problem)


def _python(wanted: Expected, found: Found) -> Check:
    problem = english("Python is {found}, the row pins {wanted}", found=found["python"], wanted=wanted.python)
    return _check("python", None if found["python"].startswith(wanted.python) else problem)


def _versions(wanted: Expected, found: Found) -> Iterator[Check]:
    for name, pin in wanted.pins.items():
        version = _version(found, name)
        # an index may add a local label, such as +cpu
        is_same = version is not None and version in {pin, pin + version[len(public(version)) :]}
        yield _check(f"pin {name}", None if is_same else _other_version(name, version, pin))
    for name, pin in wanted.built.items():
        version = _version(found, name)
        is_same = version is not None and (not pin or public(version) == pin)
        yield _check(f"built from source {name}", None if is_same else _other_version(name, version, pin))
    for name in wanted.removed:
        version = _version(found, name)
        problem = english(
            "{name} {version} is installed, although this environment must not have it", name=name, version=version
        )
        yield _check(f"removed {name}", problem if version is not None else None)


def _other_version(name: str, version: str | None, pin: str) -> str:
    if version is not None:
        return english("{name} is {found}, the row pins {wanted}", name=name, found=version, wanted=pin)
    if pin:
        return english("{name} is not installed; the row pins {wanted}", name=name, wanted=pin)
    return english("{name} is not installed, although it was built from source", name=name)


def _lock(wanted: Expected, found: Found) -> Check:
    if not wanted.locked:
        return _skipped("lock", english("this environment has no lock yet"))
    versions = {name: _version(found, name) for name in wanted.locked}
    others = [
        f"{name} {versions[name]}, locked {version}"
        for name, version in wanted.locked.items()
        if versions[name] != version
    ]
    problem = english(
        "{number} of {total} packages differ from the lock: {packages}",
        number=len(others),
        total=len(wanted.locked),
        packages="; ".join(others[:_MOST]),
    )
    return _check("lock", problem if others else None)


def _beyond_the_lock(wanted: Expected, found: Found) -> Check:
    name = "beyond the lock"
    if not wanted.locked:
        return _skipped(name, english("this environment has no lock yet"))
    if found["base"] is None:
        return _skipped(name, english("the image does not list the packages of its base image"))
    base = {canonicalize_name(line.partition("==")[0]) for line in found["base"]}
    others = sorted(found["packages"].keys() - wanted.ours - base)
    problem = english("packages that are not in the lock are installed: {packages}", packages=", ".join(others[:_MOST]))
    return _check(name, problem if others else None)


def _files(wanted: Expected, found: Found) -> Check:
    """Check that every file of an installed package is as the package lists it."""
    wrong = []
    for name in sorted(wanted.ours & found["packages"].keys()):
        damaged = found["packages"][name]["damaged"]
        files = [
            f"{file} is {how}"
            for file, how in damaged.items()
            if how != "overwritten" and file not in wanted.unlike_record
        ]
        if files:
            wrong.append(f"{name}: {files[0]}" + (f" and {len(files) - 1} more" if files[1:] else ""))
    problem = english(
        "files of installed packages are not as they were installed: {files}", files="; ".join(wrong[:_MOST])
    )
    return _check("files", problem if wrong else None)


def _not_shadowed(wanted: Expected, found: Found) -> Iterator[Check]:
    """Check that no other package has overwritten files: of two that share a folder, the last installed wins."""
    for name in wanted.shared:
        package = found["packages"].get(canonicalize_name(name))
        if package is None:
            yield _check(f"not shadowed {name}", english("{name} is not installed", name=name))
            continue
        damaged = package["damaged"]
        problem = english(
            "{name} is shadowed: {number} of its files are missing or overwritten, such as {file}",
            name=name,
            number=len(damaged),
            file=next(iter(damaged), None),
        )
        yield _check(f"not shadowed {name}", problem if damaged else None)


def _trees(wanted: Expected, found: Found) -> Iterator[Check]:
    """Check that a source tree, which Python imports from, has exactly the files of its commit."""
    # what the build compiled within its tree is checked as a product
    made = [str(product["file"]) for product in wanted.products]
    for component, tree in wanted.trees.items():
        place, files = f"{wanted.sources}/{component}", found["trees"][component]
        changed = [f"{file} is changed" for file in tree if file in files and files[file] != tree[file]]
        missing = [f"{file} is missing" for file in tree if file not in files]
        added = [
            f"{file} is added"
            for file in files
            if file not in tree and not any(fnmatchcase(f"{place}/{file}", item) for item in made)
        ]
        wrong = [*changed, *missing, *added]
        problem = english("{folder} is not its source archive: {files}", folder=place, files="; ".join(wrong[:_MOST]))
        yield _check(f"source {component}", problem if wrong else None)
    for component, reason in wanted.unknown_trees.items():
        yield _skipped(f"source without archive {component}", reason)


def _conflicts(wanted: Expected, found: Found) -> Check:
    if found["conflicts"] is None:
        return _skipped("conflicts", english("uv is not installed"))
    allowed = [re.compile(pattern) for pattern in wanted.expected_conflicts]
    strange = [line for line in found["conflicts"] if line and not any(item.search(line) for item in allowed)]
    return _check("conflicts", english("an unexpected conflict: {line}", line=strange[0]) if strange else None)


def _variables(wanted: Expected, variables: Mapping[str, str]) -> Iterator[Check]:
    for name, value in wanted.variables.items():
        problem = english(
            "{name} is {found}, the row sets {wanted}", name=name, found=repr(variables.get(name)), wanted=repr(value)
        )
        yield _check(f"variable {name}", None if variables.get(name) == value else problem)


def _set_up(wanted: Expected, found: Found) -> Iterator[Check]:
    """Check that what a script sets in a shell that has nothing, a shell of the image has too."""
    for script in wanted.shell_setup:
        alone = found["scripts"][script]
        missing = [name for name in alone or () if name not in found["variables"]]
        if alone is None:
            problem: str | None = english("{file} does not exist", file=script)
        elif wanted.is_image and not alone:
            problem = english("{file} sets no variable", file=script)
        elif wanted.is_image and missing:
            problem = english(
                "a shell of the image does not source {file}: it has no {names}",
                file=script,
                names=", ".join(sorted(missing)),
            )
        else:
            problem = None
        yield _check(f"set env {script}", problem)


def _libraries(wanted: Expected, found: Found) -> Iterator[Check]:
    for library, absent in wanted.libraries.items():
        if absent:
            yield _skipped(f"library {library}", english("needs {component}", component=absent))
            continue
        problem = english(
            "{library} is neither in a folder of LD_LIBRARY_PATH nor in the cache of the linker", library=library
        )
        yield _check(f"library {library}", None if library in found["libraries"] else problem)


def _products(wanted: Expected, found: Found) -> Iterator[Check]:
    for product, files in zip(wanted.products, found["products"], strict=True):
        others = [file for file, is_linked in files.items() if not is_linked]
        if not files:
            problem: str | None = english(
                "{file} was not compiled: there is no such file in {folder}", file=product["file"], folder=found["site"]
            )
        elif others:
            problem = english(
                "{file} is not linked with {library}: it is the build for another device",
                file=others[0],
                library=product["links"],
            )
        else:
            problem = None
        yield _check(f"product {product['file']}", problem)


def _leftovers(found: Found) -> Iterator[Check]:
    for path in _CACHES:
        files = found["leftovers"][path]
        problem = english(
            "{number} files of a cache were left in the image, such as {file}",
            number=len(files),
            file=next(iter(files), None),
        )
        yield _check(f"no cache {path}", problem if files else None)
    for path in _CREDENTIALS:
        left = [file for file, size in found["leftovers"][path].items() if size or file not in _MOUNTED]
        yield _check(f"no credentials {path}", english("{file} was left in the image", file=left[0]) if left else None)
    for kind in _SUSPECTS:
        reasons = [f"{path} {reason}" for path, reason in sorted(found["suspects"].get(kind, {}).items())]
        problem = english(
            "{number} files are not fit for an image: {files}", number=len(reasons), files="; ".join(reasons[:_MOST])
        )
        yield _check(f"no suspect file {kind}", problem if reasons else None)


def _no_secret_variables(variables: Mapping[str, str]) -> Check:
    names = [name for name, value in variables.items() if _SECRET_NAME.search(name) or _SECRET_VALUE.search(value)]
    return _check(
        "no secret variables", english("the image sets {names}", names=", ".join(sorted(names))) if names else None
    )
