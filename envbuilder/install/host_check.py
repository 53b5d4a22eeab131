"""Checks what an installation needs on this host: Python, packages of its distribution, the vendor's toolkit."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from pathlib import Path

from envbuilder import platforms, versions
from envbuilder.environment import Environment
from envbuilder.errors import HostError
from envbuilder.language import tr
from envbuilder.plan import Plan
from envbuilder.process import run


def check_host(environment: Environment, plan: Plan, toolkits: Collection[str]) -> list[str]:
    """Refuse a host that lacks something, before the installation begins; return notes on what could not be checked.

    `toolkits` are the versions of the vendor's toolkit that this host has.
    """
    if environment.coordinates.arch != platforms.arch():
        named = {"environment": environment.id, "arch": environment.coordinates.arch, "host": platforms.arch()}
        raise HostError(tr("{environment} is for {arch}, and this machine is {host}", **named))
    absent = [script for script in plan.shell_setup if not Path(script).is_file()]
    if absent:
        raise HostError(
            tr("the vendor's toolkit is not installed: there is no {paths}", paths=tr(", no ").join(absent)),
            hint=tr("install CANN and nnal of the row, or build an image, which has them"),
        )
    wanted = environment.pins.get("cann") if plan.shell_setup else None
    if wanted and toolkits and versions.key(wanted.version) not in map(versions.key, toolkits):
        named = {"environment": environment.id, "version": wanted.version, "toolkits": ", ".join(sorted(toolkits))}
        raise HostError(
            tr("{environment} is for CANN {version}, and this host has {toolkits}", **named),
            hint=tr("install that CANN, choose another row (envbuilder doctor shows which), or build an image"),
        )
    return _packages(plan)


def _packages(plan: Plan) -> list[str]:
    """Refuse a host that lacks packages of the distribution; return a note if they cannot be checked."""
    wanted = plan.system_packages
    if not wanted:
        return []
    if shutil.which("dpkg-query") is None:
        return [
            tr("not checked: whether this system has the packages that Debian calls {names}", names=", ".join(wanted))
        ]
    found = run(["dpkg-query", "--show", "--showformat", "${Package} ${Status}\n", *wanted]).text
    installed = {line.split()[0] for line in found.splitlines() if line.endswith(" installed")}
    missing = [name for name in wanted if name not in installed]
    if missing:
        raise HostError(
            tr("system packages are missing: {names}", names=", ".join(missing)),
            hint=f"apt-get install {' '.join(missing)}",
        )
    return []


def find_python(wanted: str, given: str | None, prefix: Path) -> str:
    """Return the path of the given interpreter, or of the first one with the right version.

    It must be able to make a virtual environment. The interpreter in the prefix, which may be active, is skipped,
    because a repeated installation deletes it.
    """
    own = prefix / "venv" / "bin"
    folders = [item for item in os.environ.get("PATH", os.defpath).split(os.pathsep) if Path(item) != own]
    for name in [given] if given else [f"python{wanted}", "python3", "python"]:
        path = shutil.which(name, path=os.pathsep.join(folders))
        version = _evaluate(path, "import sys; print('%d.%d' % sys.version_info[:2])") if path else None
        if path and version == wanted:
            if _evaluate(path, "import ensurepip, venv; print('whole')") is None:
                raise HostError(
                    tr("{path} has no module venv or ensurepip, which make a virtual environment", path=path),
                    hint=tr("apt-get install python{wanted}-venv, or another Python with --python", wanted=wanted),
                )
            # not `path`: a shim of pyenv or asdf starts a Python in another folder
            return _evaluate(path, "import sys; print(sys.executable)") or path
        if path and given:
            named = {"program": given, "wanted": wanted}
            raise HostError(
                tr("{program} is Python {version}, and {wanted} is needed", version=version, **named)
                if version
                else tr("{program} is not a Python, and {wanted} is needed", **named)
            )
    hint = tr("install Python {wanted} (`uv python install {wanted}` does), and name it with --python", wanted=wanted)
    raise HostError(
        tr("there is no Python {wanted} at {place}", wanted=wanted, place=given)
        if given
        else tr("there is no Python {wanted} on the path", wanted=wanted),
        hint=hint,
    )


def _evaluate(path: str, code: str) -> str | None:
    return run([path, "-c", code]).text.strip() or None
