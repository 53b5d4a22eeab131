"""Recognizes common causes of failures of the engine by its output."""

from __future__ import annotations

import re
from pathlib import Path

from envbuilder.language import tr

# hints by a pattern of the output
HINTS = {
    # apt-get; pip and git; uv
    r"Release file for .* is (not valid yet|expired)|certificate:? (is not yet|(has )?[Ee]xpired|[Nn]ot ?[Vv]alid)": (
        "a certificate or a list of packages is too old or too new: check the clock of the engine's machine"
    ),
    r"certificate verify failed|SSL certificate problem|CERTIFICATE_VERIFY|UnknownIssuer|certificate is NOT trusted": (
        "the network has its own certificates: give them with --ca-bundle"
    ),
    r"[Nn]o space left on device": "the disk of the engine is full: docker system prune, or move its root",
    r"[Hh]ash mismatch|do not match the hashes|hashes? .* not match": (
        "a file on the index is not the one that was locked: it was changed on the way, or the mirror is stale"
    ),
    r"exec format error": "the base image is for another architecture: choose --platform, or set up emulation",
    r"\bKilled\b|exit code: 137|out of memory|signal 9|cc1plus.*terminated": (
        "out of memory while compiling: try --jobs 1, or give the build more memory"
    ),
    r"failed to create endpoint|could not find bridge": "the engine has lost its network: restart the engine",
    r"container-init binary not found": "podman needs the package catatonit to start containers",
    r"407 Proxy Authentication": "the proxy requires credentials: give them in --proxy",
    r"fatal: unable to access|Could not read from remote repository": (
        "the git host cannot be reached: use --git-mirror, or --source sdist if the lock has a source archive"
    ),
    r"[Nn]ame resolution|Could not resolve|dns error|Connection refused|Network is unreachable|not known|timed out": (
        "the build cannot reach the network: check --proxy, --pip-index, --apt-mirror and the network of this host"
    ),
}


def hint_of(lines: list[str]) -> str | None:
    """Return a hint on the cause of a failure, or None if the output shows no known cause."""
    text = "\n".join(lines)
    return next((tr(hint) for pattern, hint in HINTS.items() if re.search(pattern, text)), None)


def reason_of(error: Exception) -> str:
    """Return the engine's message about a failure, or else the error of the client."""
    return str(getattr(error, "explanation", None) or error)


def hint_with_log(lines: list[str], log: Path) -> str:
    cause, where = hint_of(lines), tr("the whole log: {log}", log=log)
    return tr("; ").join(filter(None, (cause, where)))
