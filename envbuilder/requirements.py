"""Parses the requirements of packages (PEP 508), and normalizes their names."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from packaging.markers import Marker
from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as _Requirement

from envbuilder import versions
from envbuilder.language import tr

# of a text that is no requirement
_SHOWN = 100


class Requirement(NamedTuple):
    """A requirement: its normalized name, the condition on its version, and the marker that limits it."""

    name: str
    extras: frozenset[str]
    specifier: str
    marker: Marker | None
    text: str

    @property
    def unconditional(self) -> str:
        """Return the requirement without its marker."""
        return self.text.partition(";")[0].strip()

    def applies(self, python: str, arch: str) -> bool:
        """Return whether the marker holds on Linux with this Python and machine."""
        environment = {
            "python_version": python,
            "python_full_version": f"{python}.0",
            "platform_machine": arch,
            "sys_platform": "linux",
            "platform_system": "Linux",
            "os_name": "posix",
            "extra": "",
        }
        return self.marker is None or self.marker.evaluate(environment)

    def allows(self, version: str) -> bool:
        return versions.satisfies(version, self.specifier)


def normalize(name: str) -> str:
    """Return a name as the matrices spell it: `torch_npu` for `torch-npu`, `torch.npu` and `Torch_NPU`."""
    return name.lower().replace("-", "_").replace(".", "_")


@lru_cache(maxsize=4096)
def parse(text: str) -> Requirement:
    """Return the requirement in a text; raise ValueError with the reason if it is invalid."""
    try:
        requirement = _Requirement(text)
    except (InvalidRequirement, RecursionError) as error:
        reason = tr("it is nested too deeply") if isinstance(error, RecursionError) else str(error).splitlines()[0]
        fields = {"requirement": text[:_SHOWN], "reason": reason}
        raise ValueError(tr("'{requirement}' is not a requirement: {reason}", **fields)) from None
    if requirement.url is not None:
        raise ValueError(
            tr("'{requirement}' names an address; pin the component by version or commit instead", requirement=text)
        )
    name, extras = normalize(requirement.name), frozenset(requirement.extras)
    return Requirement(name, extras, str(requirement.specifier), requirement.marker, text)
