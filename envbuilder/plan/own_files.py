"""States the files of an image that no package and no source tree has, each with the rule that it follows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

from envbuilder.plan.plan import BILL_FILE, HOME, LOCKS, SETUP, Plan


class OwnFile(NamedTuple):
    """A pattern of paths, and the rule that these files have to follow, with its value."""

    path: str
    rule: str
    value: str = ""


# what the installers of an image write by themselves
_INSTALLERS = (
    OwnFile("/etc/alternatives/*", "link"),
    OwnFile("/usr/*", "alternative"),
    OwnFile("/etc/rc?.d/*", "link"),
    OwnFile("/etc/ssl/certs/ca-certificates.crt", "certificates"),
    OwnFile("/etc/ssl/certs/*", "link"),
    OwnFile("/etc/ca-certificates.conf", "data"),
    OwnFile("/etc/ld.so.cache", "data"),
    OwnFile("/etc/.pwd.lock", "empty"),
    *(
        OwnFile(f"/etc/{name}{end}", "accounts")
        for name in ("passwd", "group", "shadow", "gshadow")
        for end in ("", "-")
    ),
    # locks of uv, whose names are random, and the places where a build mounts its secrets
    OwnFile("/tmp/uv-*.lock", "empty"),  # noqa: S108
    OwnFile("/run/adduser", "empty"),
    OwnFile("/run/secrets/ca", "empty"),
    OwnFile("/run/secrets/network", "empty"),
    OwnFile("/var/cache/apt/archives/lock", "empty"),
    OwnFile("/var/cache/debconf/*", "data"),
    OwnFile("/var/cache/dnf/*", "data"),
    OwnFile("/var/cache/ldconfig/aux-cache", "data"),
    OwnFile("/var/lib/apt/extended_states", "data"),
    OwnFile("/var/lib/dnf/*", "data"),
    *(
        OwnFile(f"/var/lib/dpkg/{name}", "data")
        for name in ("alternatives/*", "available", "diversions*", "lock*", "statoverride*", "status*", "triggers/*")
    ),
    OwnFile("/var/lib/rpm/*", "data"),
    OwnFile("/usr/lib/sysimage/rpm/*", "data"),
    *(
        OwnFile(f"/var/log/{name}", "data")
        for name in ("alternatives.log", "apt/*", "dnf*.log", "dpkg.log", "hawkey.log")
    ),
)


def own_texts(plan: Plan) -> dict[str, str]:
    """Return the SHA-256 of each file whose text the plan knows, by its path in the image."""
    kept = {path: text for path, text in plan.files.items() if path.startswith(f"{LOCKS}/") or path == SETUP}
    return {f"{HOME}/{path}": hashlib.sha256(text.encode()).hexdigest() for path, text in kept.items()}


def own_files(plan: Plan) -> tuple[OwnFile, ...]:
    """Return the files that the plan states."""
    return (*_made(plan), *_INSTALLERS)


def _made(plan: Plan) -> Iterator[OwnFile]:
    yield OwnFile(f"{HOME}/{BILL_FILE}", "data")
    if plan.shell_setup:
        yield OwnFile("/root/.bashrc", "addition", f"source {HOME}/{SETUP}\n")
    for layer in plan.stages[-1].layers:
        for step in layer.steps:
            if step.kind == "link-extension":
                yield OwnFile(f"/usr/local/*-packages/{step.values['module']}*.so", "link")
