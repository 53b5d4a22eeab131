"""The layer that installs packages of the distribution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envbuilder.environment import Environment
from envbuilder.plan.plan import Layer, Step

_TITLE = "system packages"


def system_packages(environment: Environment, packages: Sequence[str]) -> Iterator[Layer]:
    """Yield the layer for packages, which are named as in Debian and Ubuntu, if there are any."""
    system = environment.system
    if system is not None and system.installer == "dnf" and not environment.on_stand_in:
        own = dict.fromkeys(name for item in packages for name in system.packages.get(item, (item,)))
        if own:
            yield Layer(_TITLE, (Step("system-packages-dnf", {"packages": tuple(own)}),), only_in_images=True)
    elif packages:
        yield Layer(_TITLE, (Step("system-packages", {"packages": tuple(packages)}),), only_in_images=True)
