"""Recognizes common causes of failures of the engine by its output."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from envbuilder.errors import EnvbuilderError, HostError, NetworkError
from envbuilder.language import tr


class Cause(NamedTuple):
    """What to do about a failure, and its kind: the same build succeeds on another machine or network, or on none."""

    hint: str
    kind: type[EnvbuilderError] = EnvbuilderError


# by a pattern of the output
CAUSES = {
    # apt-get; pip and git; uv
    r"Release file for .* is (not valid yet|expired)|certificate:? (is not yet|(has )?[Ee]xpired|[Nn]ot ?[Vv]alid)": Cause(
        "a certificate or a list of packages is too old or too new: check the clock of the engine's machine", HostError
    ),
    r"certificate verify failed|SSL certificate problem|CERTIFICATE_VERIFY|UnknownIssuer|certificate is NOT trusted": Cause(
        "the network has its own certificates: give them with --ca-bundle", NetworkError
    ),
    r"[Nn]o space left on device": Cause(
        "the disk of the engine is full: docker system prune, or move its root", HostError
    ),
    r"[Hh]ash mismatch|do not match the hashes|hashes? .* not match": Cause(
        "a file on the index is not the one that was locked: it was changed on the way, or the mirror is stale"
    ),
    r"exec format error": Cause(
        "the base image is for another architecture: choose --platform, or set up emulation", HostError
    ),
    r"\bKilled\b|exit code: 137|out of memory|signal 9|cc1plus.*terminated": Cause(
        "out of memory while compiling: try --jobs 1, or give the build more memory", HostError
    ),
    r"failed to create endpoint|could not find bridge": Cause(
        "the engine has lost its network: restart the engine", HostError
    ),
    r"container-init binary not found": Cause("podman needs the package catatonit to start containers", HostError),
    r"407 Proxy Authentication": Cause("the proxy requires credentials: give them in --proxy", NetworkError),
    r"fatal: unable to access|Could not read from remote repository": Cause(
        "the git host cannot be reached: use --git-mirror, or --source sdist if the lock has a source archive",
        NetworkError,
    ),
    r"[Nn]ame resolution|Could not resolve|dns error|Connection refused|Network is unreachable|not known|timed out": Cause(
        "the build cannot reach the network: check --proxy, --pip-index, --apt-mirror and the network of this host",
        NetworkError,
    ),
}


def build_failure(message: str, lines: list[str], log: Path) -> EnvbuilderError:
    """Return the error of a failed build, of the kind that its output shows, with a hint and the place of its log."""
    cause = _cause(lines)
    where = tr("the whole log: {log}", log=log)
    hint = tr("; ").join((tr(cause.hint), where)) if cause else where
    return (cause.kind if cause else EnvbuilderError)(message, hint=hint)


def hint_of(lines: list[str]) -> str | None:
    """Return a hint on the cause of a failure, or None if the output shows no known cause."""
    cause = _cause(lines)
    return tr(cause.hint) if cause else None


def _cause(lines: list[str]) -> Cause | None:
    text = "\n".join(lines)
    return next((cause for pattern, cause in CAUSES.items() if re.search(pattern, text)), None)


def reason_of(error: Exception) -> str:
    """Return the engine's message about a failure, or else the error of the client."""
    return str(getattr(error, "explanation", None) or error)
