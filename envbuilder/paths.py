"""Paths of the data that ships with envbuilder (in the wheel or a checkout), and of settings, caches, state and logs.

From these paths follows how envbuilder was installed, so that every hint fits that installation.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from envbuilder.language import tr

if TYPE_CHECKING:
    from importlib.metadata import Distribution

MATRICES_VARIABLE = "ENVBUILDER_MATRICES"
# the name on the package index; `envbuilder` is another project there
DISTRIBUTION = "ascend-envbuilder"
# a part of the path of the environments that a tool makes, and its command that installs one again
_TOOLS = {"/uv/tools/": "uv tool install --force", "/pipx/": "pipx install --force"}


@lru_cache(maxsize=1)
def _data_root() -> Path:
    package = Path(__file__).resolve().parent
    packaged = package / "_data"
    return packaged if packaged.is_dir() else package.parent


def is_checkout() -> bool:
    """Return whether this is a checkout of the repository, and not an installed wheel."""
    return _data_root() == Path(__file__).resolve().parents[1]


def with_extra(extra: str) -> str:
    """Return the command that adds an extra to this installation."""
    if is_checkout():
        return tr("pip install --editable '.[{extra}]', in the checkout", extra=extra)
    import json
    from importlib.metadata import distribution

    package = distribution(DISTRIBUTION)
    install = next((command for place, command in _TOOLS.items() if place in f"{sys.prefix}/"), "pip install")
    # a tool that installs again removes the packages of the extras that are not named
    extras = ",".join(sorted({extra, *_installed_extras(package)}))
    # of an installation from a file: the package index may not have this package
    origin = json.loads(package.read_text("direct_url.json") or "{}").get("url")
    return f"{install} '{DISTRIBUTION}[{extras}]{f' @ {origin}' if origin else ''}'"


def _installed_extras(package: Distribution) -> Iterator[str]:
    """Yield the extras of a package whose requirements are all installed."""
    from importlib.metadata import distributions

    from packaging.requirements import Requirement

    wanted = [line for line in map(Requirement, package.requires or ()) if line.marker]
    for extra in package.metadata.get_all("Provides-Extra") or ():
        own = [line.name for line in wanted if line.marker and line.marker.evaluate({"extra": extra})]
        if all(any(distributions(name=name)) for name in own):
            yield extra


def matrices() -> Path:
    """Return the folder of the built-in matrices."""
    return _data_root() / "matrices"


def templates() -> Path:
    """Return the folder of the templates."""
    return _data_root() / "templates"


def dockerfiles() -> Path:
    """Return the folder of the built-in Dockerfiles, with the locks that they install."""
    return _data_root() / "dockerfiles"


def lock_folder(matrices_folder: Path | None, folder: str) -> Path:
    """Return the folder of the lock of an environment; the built-in locks are beside their Dockerfiles."""
    return matrices_folder / "locks" / folder if matrices_folder else dockerfiles() / folder / "locks"


def expanded(place: str) -> Path:
    """Return a path with the home of the user in place of ~; a user without a home has /, as in docker."""
    try:
        return Path(place).expanduser()
    except RuntimeError:
        return Path("/", *Path(place).parts[1:])


def config_folder() -> Path:
    """Return the folder of this user's settings."""
    return expanded(os.environ.get("XDG_CONFIG_HOME") or "~/.config") / "envbuilder"


def cache_folder() -> Path:
    """Return the folder of this user's caches, which can be deleted at any time."""
    return expanded(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "envbuilder"


def state_folder() -> Path:
    """Return the folder of this user's logs and locks."""
    return expanded(os.environ.get("XDG_STATE_HOME") or "~/.local/state") / "envbuilder"


def new_log(identifier: str, suffix: str = "") -> Path:
    """Return the path of a new log, which no other run uses."""
    from datetime import datetime, timezone

    now = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S")
    return state_folder() / "logs" / identifier / f"{now}-{os.getpid()}{suffix}.log"
