"""Explains failures of the resolver with the values of the matrices: which pin contradicts which requirement."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envbuilder.environment import Environment
from envbuilder.environment.packages import requirements_of, source_components
from envbuilder.errors import EnvbuilderError, NetworkError, Where
from envbuilder.language import english, tr
from envbuilder.requirements import normalize, parse

LOCK_ELSEWHERE = "lock it on a machine that reaches that index, or where uv is set up with a mirror of it"
_NAME = r"([A-Za-z0-9][A-Za-z0-9._-]*)"
_DEPENDS = re.compile(rf"{_NAME}(?:\[[^\]]*\])?((?:[=<>!~][^\s,]*)?) depends on {_NAME}(?:\[[^\]]*\])?([=<>!~][^\s]*)?")
_REQUIRED = re.compile(
    rf"(?:you require|your project depends on|environment depends on|require) {_NAME}(?:\[[^\]]*\])?([=<>!~]\S*)?"
)
_NO_VERSION = re.compile(rf"(?:there (?:is|are) no versions? of|no wheels? .*? for) {_NAME}((?:[=<>!~]\S*)?)")
_NOT_FOUND = re.compile(rf"{_NAME} was not found in the (?:package registry|provided package locations|cache)")
_UNREACHABLE = re.compile(r"Failed to fetch: `?([^\s`]+)|error sending request for url \(([^)]+)\)")
# uv treats an index that refuses access as one without the package
_FORBIDDEN = re.compile(r"An index(?: URL)? \(([^)]+)\) .*?(403 Forbidden|401 Unauthorized)")
_STATUS = re.compile(r"HTTP status \w+ error \((\d{3} [^)]+)\)")


class ResolutionError(EnvbuilderError):
    """The requirements of an environment contradict each other, or a package does not exist."""

    exit_code = 3


def failure(output: str, environment: Environment) -> EnvbuilderError:
    """Return the error to raise for the output of uv."""
    text = " ".join(re.sub(r"[│╰─▶×├]", " ", output).split())
    if unreachable := _UNREACHABLE.search(text):
        status = _STATUS.search(text)
        return _network(unreachable[1] or unreachable[2], status[1] if status else None, environment)
    if (forbidden := _FORBIDDEN.search(text)) and _NOT_FOUND.search(text):
        return _network(forbidden[1], forbidden[2], environment)
    missing = _NO_VERSION.search(text) or _NOT_FOUND.search(text)
    if missing and normalize(missing[1]) not in _contested(text, environment):
        return _does_not_exist(missing, environment)
    claims = list(dict.fromkeys(_claims(text, environment)))
    reason = "; ".join(f"{claim} ({place})" if place else claim for claim, place in claims) or text[:600]
    hint = tr("change the pin, give it a 'because' to override the requirement, or pin a package they disagree on")
    return ResolutionError(
        tr("{environment} does not resolve: {reason}", environment=environment.id, reason=reason),
        hint=hint if claims else None,
        where=next((where for _, where in claims if where), environment.where),
    )


def _network(url: str, status: str | None, environment: Environment) -> NetworkError:
    package = normalize(url.rstrip("/").rpartition("/")[2])
    for name, index in environment.indexes.items():
        if url.startswith(index.rstrip("/")) or normalize(environment.distribution(name)) == package:
            named = {"environment": environment.id, "package": environment.distribution(name), "index": index}
            return NetworkError(
                english("{environment} needs {package} from {index}, which answers {status}", status=status, **named)
                if status
                else english("{environment} needs {package} from {index}, which cannot be reached", **named),
                hint=tr(LOCK_ELSEWHERE),
            )
    return NetworkError(
        english("{environment}: {url} answers {status}", environment=environment.id, url=url, status=status)
        if status
        else english("{environment}: {url} cannot be reached", environment=environment.id, url=url),
        hint=tr("check the network, proxy, CA and credential settings of uv"),
    )


def _does_not_exist(missing: re.Match[str], environment: Environment) -> ResolutionError:
    name = normalize(missing[1])
    pin = environment.pins.get(name)
    wanted = "".join(filter(None, missing.groups())).rstrip(",.")
    hint = tr("the index has no such file for this Python and machine")
    if environment.exclude_newer:
        hint = tr(
            "{hint}; the row uses the index as of {date}, and 'newer_packages' allows one package to be newer",
            hint=hint,
            date=environment.exclude_newer,
        )
    message = tr("{environment}: no index has {wanted}", environment=environment.id, wanted=wanted)
    owners = [
        tr("{component} requires {requirement}", component=title, requirement=text)
        for title, text, _ in _requirements(name, environment)
    ]
    if owners and not pin:
        message += f" ({'; '.join(owners)})"
    return ResolutionError(message, hint=hint, where=pin.where if pin else environment.where)


def _claims(text: str, environment: Environment) -> Iterator[tuple[str, Where | None]]:
    """Yield the pins and requirements of the packages that uv names, with their places in the matrices."""
    for name in _mentioned(text):
        own = list(_requirements(name, environment))
        pin = environment.pins.get(name)
        depends = [
            tr(
                "{component} requires {requirement}",
                component=f"{owner}{version}",
                requirement=f"{wanted}{condition or ''}".rstrip(",."),
            )
            for owner, version, wanted, condition in _DEPENDS.findall(text)
            if normalize(wanted) == name and normalize(owner) != "environment"
        ]
        if len(own) + len(depends) + (pin is not None) < 2:
            continue
        if pin is not None:
            yield tr("{name} is pinned at {version}", name=name, version=pin.full), pin.where
        for title, requirement, where in own:
            if pin is None or requirement != name:
                yield tr("{component} requires {requirement}", component=title, requirement=requirement), where
        for claim in depends:
            yield claim, None


def _contested(text: str, environment: Environment) -> set[str]:
    """Return the packages on which the row contradicts itself, whichever versions an index has."""
    found = set()
    for name in _mentioned(text):
        conditions = [parse(requirement) for _, requirement, _ in _requirements(name, environment)]
        pin = environment.pins.get(name)
        if pin is not None:
            contradicts = not all(item.allows(pin.version) for item in conditions)
        else:
            contradicts = sum(bool(item.specifier) for item in conditions) > 1
        if contradicts:
            found.add(name)
    return found


def _mentioned(text: str) -> list[str]:
    names = [match for pattern in (_REQUIRED, _DEPENDS) for found in pattern.findall(text) for match in found]
    return list(dict.fromkeys(normalize(name) for name in names if re.fullmatch(_NAME, name) and not name[0].isdigit()))


def _requirements(name: str, environment: Environment) -> Iterator[tuple[str, str, Where]]:
    for component, release in source_components(environment):
        for requirement in requirements_of(release, environment):
            if requirement.name == name:
                yield f"{component.title} {release.version}", requirement.text, release.where
