"""Decodes the files of a matrix, and reports all of their problems together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from envbuilder.errors import MatrixError, Problem, Where
from envbuilder.language import tr
from envbuilder.matrix.matrix import Rows
from envbuilder.matrix.model import (
    Branch,
    Chips,
    Component,
    Engine,
    EnvironmentEvidence,
    EvidenceFile,
    Framework,
    Hardware,
    Host,
    KnownWheels,
    Recipe,
    Root,
    SmokeRun,
    Symptom,
    Symptoms,
)
from envbuilder.matrix.patterns import pattern_problems
from envbuilder.matrix.reader import MOST_PROBLEMS, read
from envbuilder.matrix.record import Record
from envbuilder.matrix.references import check_components, check_recipes, check_rows, check_smoke_runs
from envbuilder.matrix.sources import ROOT_FILE, File
from envbuilder.matrix.types import INVALID, Decoding, record_of

R = TypeVar("R", bound=Record)
_FILE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_CHIPS, _HOST, _SYMPTOMS = "chips.yaml", "host.yaml", "symptoms.yaml"
_WHEELS = "wheels/"
EVIDENCE = "evidence/"


def decode_rows(files: Mapping[str, File], others: Sequence[Problem] = ()) -> Rows:
    """Decode the files that define which environments exist; raise their problems together with the others."""
    problems: list[Problem] = []
    rows = _rows(files, problems)
    if rows is None or problems or others:
        raise _error([*problems, *others])
    return rows


def decode_everything(files: Mapping[str, File]) -> tuple[Rows, dict[str, Any]]:
    """Decode all files; the second value has the attributes that a Matrix otherwise decodes on first use."""
    problems: list[Problem] = []
    components = _components(files, problems)
    rows = decode_rows(files, problems)
    return rows, {
        "components": components,
        "smoke_runs": decode_smoke_runs(files, rows),
        "recipes": decode_recipes(files, rows),
        "symptoms": decode_symptoms(files),
        "known_wheels": decode_known_wheels(files),
    }


def _rows(files: Mapping[str, File], problems: list[Problem]) -> Rows | None:
    root = _file(files, ROOT_FILE, Root, problems)
    chips = _file(files, _CHIPS, Chips, problems)
    host = _file(files, _HOST, Host, problems) if _HOST in files else Host(source="")
    hardware = _folder(files, "hardware/", Hardware, problems)
    engines = _folder(files, "engines/", Engine, problems)
    frameworks = _folder(files, "frameworks/", Framework, problems)
    branches = tuple(
        branch
        for name in frameworks
        for branch in _folder(files, f"frameworks/{name}/", Branch, problems, framework=name).values()
    )
    _check_strays(files, frameworks, problems)
    if root is None or chips is None or host is None or problems:
        return None
    rows = Rows(
        root=root, chips=chips, host=host, hardware=hardware, engines=engines, frameworks=frameworks, branches=branches
    )
    problems += check_rows(rows, Where(files[ROOT_FILE].shown))
    return rows


def decode_components(files: Mapping[str, File]) -> dict[str, Component]:
    problems: list[Problem] = []
    components = _components(files, problems)
    _raise(problems)
    return components


def decode_evidence(files: Mapping[str, File]) -> dict[str, EnvironmentEvidence]:
    """Return the evidence by the folder of the environment: framework/branch/engine-hardware-arch."""
    problems: list[Problem] = []
    found = {
        f"{relative.removeprefix(EVIDENCE).removesuffix('.yaml')}/{name}": evidence
        for relative, file in files.items()
        if relative.startswith(EVIDENCE) and (release := _decode(file, EvidenceFile, problems)) is not None
        for name, evidence in release.environments.items()
    }
    _raise(problems)
    return found


def decode_smoke_runs(files: Mapping[str, File], rows: Rows) -> dict[str, SmokeRun]:
    problems: list[Problem] = []
    found = _folder(files, "smoke/", SmokeRun, problems)
    _raise([*problems, *check_smoke_runs(rows, found)])
    return found


def decode_recipes(files: Mapping[str, File], rows: Rows) -> tuple[Recipe, ...]:
    problems: list[Problem] = []
    found = tuple(_folder(files, "recipes/", Recipe, problems).values())
    _raise([*problems, *check_recipes(rows, found)])
    return found


def decode_known_wheels(files: Mapping[str, File]) -> dict[str, KnownWheels]:
    problems: list[Problem] = []
    found = _folder(files, _WHEELS, KnownWheels, problems)
    for wheels in found.values():
        for release in wheels.releases:
            start, package = f"{wheels.name}-{release.version}-", f"{wheels.name} {release.version}"
            problems += [
                Problem(item.where, tr("'{file}' is not a wheel of {package}", file=item.file, package=package))
                for item in release.files
                if not (item.file.startswith(start) and item.file.endswith(".whl"))
            ]
    _raise(problems)
    return found


def decode_symptoms(files: Mapping[str, File]) -> tuple[Symptom, ...]:
    problems: list[Problem] = []
    found = _file(files, _SYMPTOMS, Symptoms, problems) if _SYMPTOMS in files else None
    for symptom in found.symptoms if found else ():
        for pattern in (*symptom.patterns, *symptom.unless):
            problems += pattern_problems(pattern, symptom.where)
    _raise(problems)
    return found.symptoms if found else ()


def _decode(file: File, model: type[R], problems: list[Problem], **injected: str) -> R | None:
    node = read(file.path, file.shown, problems)
    if node is None:
        return None
    value: Any = record_of(model).decode(node, Decoding(file.shown, problems), **injected)
    return None if value is INVALID else value


def _file(files: Mapping[str, File], name: str, model: type[R], problems: list[Problem]) -> R | None:
    if name not in files:
        problems.append(Problem(Where(name), tr("the file is missing")))
        return None
    return _decode(files[name], model, problems)


def _folder(
    files: Mapping[str, File], folder: str, model: type[R], problems: list[Problem], **injected: str
) -> dict[str, R]:
    """Return the records of the YAML files directly in a folder by file name, which is also their field `name`."""
    values: dict[str, R] = {}
    for relative, file in files.items():
        name, dot, _ = relative.removeprefix(folder).rpartition(".")
        if not (relative.startswith(folder) and dot) or "/" in name:
            continue
        if _FILE_NAME.fullmatch(name) is None:
            problems.append(
                Problem(Where(file.shown), tr("'{name}' is not a lower-case name; rename the file", name=name))
            )
            continue
        value = _decode(file, model, problems, name=name, **injected)
        if value is not None:
            values[name] = value
    return values


def _components(files: Mapping[str, File], problems: list[Problem]) -> dict[str, Component]:
    components = _folder(files, "compat/", Component, problems)
    problems += check_components(components)
    return components


def _check_strays(files: Mapping[str, File], frameworks: Mapping[str, Framework], problems: list[Problem]) -> None:
    folders = ["hardware/", "compat/", "engines/", "recipes/", "smoke/", _WHEELS]
    folders += [f"{parent}{name}/" for parent in (EVIDENCE, "frameworks/") for name in frameworks]
    for relative, file in files.items():
        is_framework = relative.startswith("frameworks/") and relative.count("/") == 1
        is_single = relative in {ROOT_FILE, _CHIPS, _HOST, _SYMPTOMS}
        if not (is_framework or is_single or relative.startswith(tuple(folders))):
            problems.append(Problem(Where(file.shown), tr("this file is not part of the matrix")))


def _raise(problems: list[Problem]) -> None:
    if problems:
        raise _error(problems)


def _error(problems: list[Problem]) -> MatrixError:
    hint = tr("`envbuilder matrix schema` prints what each file may contain")
    if len(problems) >= MOST_PROBLEMS:
        hint = tr("these are the first {number} problems; {hint}", number=MOST_PROBLEMS, hint=hint)
    return MatrixError(problems[:MOST_PROBLEMS], hint=hint)
