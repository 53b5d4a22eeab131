"""Recognizes common causes of failures of the engine by its output."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from envbuilder.errors import EnvbuilderError, HostError, NetworkError
from envbuilder.language import tr


class Cause(NamedTuple):
    """A cause of failures, by a pattern of the output; a failure of a machine or network is not one of the row."""

    pattern: str
    hint: str
    kind: type[EnvbuilderError] = EnvbuilderError


CAUSES = (
    Cause(
        # apt-get; pip and git; uv
        r"Release file for .* is (not valid yet|expired)|certificate:? (is not yet|(has )?[Ee]xpired|[Nn]ot ?[Vv]alid)",
        "a certificate or a list of packages is too old or too new: check the clock of the engine's machine",
        HostError,
    ),
    Cause(
        r"certificate (verify failed|is NOT trusted)|SSL certificate problem|CERTIFICATE_VERIFY|UnknownIssuer",
        "the network has its own certificates: give them with --ca-bundle",
        NetworkError,
    ),
    Cause(
        r"[Nn]o space left on device",
        "the disk of the engine is full: docker system prune, or move its root",
        HostError,
    ),
    Cause(
        r"[Hh]ash mismatch|do not match the hashes|hashes? .* not match",
        "a file on the index is not the one that was locked: it was changed on the way, or the mirror is stale",
    ),
    Cause(
        r"exec format error",
        "the base image is for another architecture: choose --platform, or set up emulation",
        HostError,
    ),
    Cause(
        r"\bKilled\b|exit code: 137|out of memory|signal 9|cc1plus.*terminated",
        "out of memory while compiling: try --jobs 1, or give the build more memory",
        HostError,
    ),
    Cause(
        r"failed to create endpoint|could not find bridge",
        "the engine has lost its network: restart the engine",
        HostError,
    ),
    # docker; podman
    Cause(
        r"[Cc]annot connect to (the Docker daemon|Podman)|permission denied while trying to connect",
        "start an engine that this user may use (systemctl start docker), or set DOCKER_HOST",
        HostError,
    ),
    Cause(
        r"unable to pick chroot mode",
        "run envbuilder as root, install the package uidmap, or give --base-image",
        HostError,
    ),
    Cause(
        r"NO_PUBKEY",
        "the keys of the packages are missing here: apt-get install debian-archive-keyring",
        HostError,
    ),
    Cause(
        r"Some index files failed to download",
        "the distribution's packages cannot be reached: give a mirror with --apt-mirror",
        NetworkError,
    ),
    Cause(r"container-init binary not found", "podman needs the package catatonit to start containers", HostError),
    Cause(r"407 Proxy Authentication", "the proxy requires credentials: give them in --proxy", NetworkError),
    Cause(
        r"fatal: unable to access|Could not read from remote repository",
        "the git host cannot be reached: use --git-mirror, or --source sdist if the lock has a source archive",
        NetworkError,
    ),
    Cause(
        r"[Nn]ame resolution|Could not resolve|dns error|no such host|not known|timed out|"
        r"Connection refused|Network is unreachable",
        "the build cannot reach the network: check --proxy, --pip-index, --apt-mirror and the network of this host",
        NetworkError,
    ),
)


def build_failure(message: str, lines: list[str], log: Path) -> EnvbuilderError:
    """Return the error of a failed build, of the kind that its output shows, with a hint and the place of its log."""
    return failure_of(message, lines, tr("the whole log: {log}", log=log))


def failure_of(message: str, lines: list[str], *more: str) -> EnvbuilderError:
    """Return an error of the kind that an output shows, with a hint that also has the texts in `more`."""
    cause = _cause(lines)
    hint = tr("; ").join((*([tr(cause.hint)] if cause else ()), *more))
    return (cause.kind if cause else EnvbuilderError)(message, hint=hint or None)


def hint_of(lines: list[str]) -> str | None:
    """Return a hint on the cause of a failure, or None if the output shows no known cause."""
    cause = _cause(lines)
    return tr(cause.hint) if cause else None


def _cause(lines: list[str]) -> Cause | None:
    text = "\n".join(lines)
    return next((cause for cause in CAUSES if re.search(cause.pattern, text)), None)


def reason_of(error: Exception) -> str:
    """Return the engine's message about a failure, or else the error of the client."""
    return str(getattr(error, "explanation", None) or error)
