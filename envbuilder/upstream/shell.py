"""Reads Dockerfiles, scripts, the commands of documents, and assignments of variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from envbuilder.matrix.model.reads import Read
from envbuilder.matrix.record import NOTHING
from envbuilder.upstream.packages import requirement
from envbuilder.upstream.statement import Line, Names, Value, plain

_ASSIGNED = re.compile(r"\s*(?:ARG|ENV|export)?\s*([A-Z][A-Z0-9_]*)=(?:\"([^\"]*)\"|(\S*))")
# the tag of an image of the vendor's toolkit: release, chips, system, Python
_BASE = re.compile(r"\s*FROM .*/([\w-]+):([\w.\-]+?)-[0-9a-z]+-[a-z]+[\d.]+-py([\d.]+)")
_WHEEL = re.compile(r"([A-Za-z_]+)-(\d[\w.]*(?:(?:%2B|\+)\w+)?)-cp3")
_DOWNLOAD = re.compile(r"/([\w-]+)/releases/download/([\w.]+)/")
_FROM_GIT = re.compile(r"/([\w-]+?)(?:\.git)?@([\w./-]+)$")
_STEPS = re.compile(r"&&|;|\|\||\bthen\b")
_WITH_VALUE = {"-r", "-i", "-f", "-e", "-c", "--index-url", "--extra-index-url", "--trusted-host", "--extra-index"}


class ShellCommand(NamedTuple):
    """A command of a script, with its first line; lines that a backslash ends are one."""

    text: str
    number: int


def commands(text: str) -> Iterator[ShellCommand]:
    lines = ["" if line.lstrip().startswith("#") else line for line in text.splitlines()]
    position = 0
    while position < len(lines):
        first, joined = position + 1, lines[position]
        position += 1
        while joined.rstrip().endswith("\\") and position < len(lines):
            # a comment between the lines of a command does not end it
            joined = f"{joined.rstrip()[:-1]} {lines[position] or chr(92)}"
            position += 1
        yield ShellCommand(joined, first)


def build_arguments(text: str) -> dict[str, str]:
    """Return the build arguments of a workflow, and the values of its matrix, by the name of the argument."""
    given = dict(re.findall(r"^\s*([A-Z_]{4,})=([^\s$]+)$", text, re.M))
    lists = re.findall(r"^\s*(\w+): \[\"?([\w.]+)\"?[,\]]", text, re.M)
    return given | {name.upper(): value for name, value in lists}


def shell(
    text: str, names: Names, arguments: Mapping[str, str] = NOTHING, given: Mapping[str, str] = NOTHING
) -> Iterator[Line]:  # fmt: skip
    """Yield what a Dockerfile or a script installs.

    `given` has values that replace those of its arguments, and `arguments` the components whose versions these are.
    """
    for name, component in arguments.items():
        if name in given:
            yield Line(component, Value("exact", plain(given[name])), 0)
    values = dict(given)
    clones = _Clones(names)
    for command in commands(text):
        if assigned := _ASSIGNED.match(command.text):
            values[assigned[1]] = given.get(assigned[1], assigned[2] or assigned[3] or "")
        filled = re.sub(r"\$\{?(\w+)\}?", lambda found: values.get(found[1], found[0]), command.text)
        yield from _base(filled, names, command.number)
        yield from _files(filled, names, command.number)
        for step in _STEPS.split(filled):
            yield from clones.read(step, command.number)
            yield from _installed(step, names, command.number)


def _base(text: str, names: Names, number: int) -> Iterator[Line]:
    if found := _BASE.match(text):
        for name, version in ((found[1], found[2]), ("python", found[3])):
            if component := names.component(name):
                yield Line(component, Value("exact", plain(version)), number)


def _files(text: str, names: Names, number: int) -> Iterator[Line]:
    """Yield the versions in the names of downloaded files."""
    for pattern in (_WHEEL, _DOWNLOAD):
        for name, version in pattern.findall(text):
            if component := names.component(name):
                yield Line(component, Value("exact", plain(version)), number)


class _Clones:
    """Follows a script through the repositories that it clones, as `git checkout` names none."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._cloned: dict[str, str | None] = {}
        self._last: str | None = None

    def read(self, step: str, number: int) -> Iterator[Line]:
        if found := re.search(r"git clone (.*)", step):
            address = next((word for word in found[1].split() if "/" in word and ":" in word), "")
            folder = address.rstrip("/").removesuffix(".git").rsplit("/", 1)[-1]
            self._last = self._cloned[folder] = self._names.component(folder)
            branch = re.search(r"(?:-b|--branch)[ =](\S+)", found[1])
            value = Value("reference", branch[1]) if branch else Value("any", "")
            if self._last:
                yield Line(self._last, value, number)
        elif found := re.match(r"\s*(?:RUN )?\(?cd (\S+)", step):
            self._last = self._cloned.get(found[1].rsplit("/", 1)[-1])
        elif (found := re.search(r"git checkout (?:-\S+ )*([\w./-]+)", step)) and self._last:
            yield Line(self._last, Value("reference", found[1]), number)


def _installed(step: str, names: Names, number: int) -> Iterator[Line]:
    if found := re.search(r"conda create .*python=+([\d.]+)", step):
        if component := names.component("python"):
            yield Line(component, Value("exact", plain(found[1])), number)
    elif found := re.search(r"pip3? install (.*)", step):
        yield from _pip(found[1], names, number)


def _pip(text: str, names: Names, number: int) -> Iterator[Line]:
    words = [word.strip("\"'") for word in re.findall(r"\"[^\"]*\"|'[^']*'|\S+", text.split(" #")[0])]
    for before, word in zip(["", *words], words, strict=False):
        if before in _WITH_VALUE or word.startswith("-"):
            continue
        if found := _FROM_GIT.search(word):
            if component := names.component(found[1]):
                yield Line(component, Value("reference", found[2]), number)
        else:
            yield from requirement(word.rstrip(")"), names, number)


def variables(text: str, names: Names, read: Read) -> Iterator[Line]:
    """Yield the values of the variables of a program that the rule names."""
    for number, line in enumerate(text.splitlines(), 1):
        found = re.match(r"\s*(\w+)\s*[:=]\s*\[?[\"']?([\w.]+)", line)
        if found and found[1] in read.variables:
            yield Line(read.variables[found[1]], Value("exact", plain(found[2])), number)
