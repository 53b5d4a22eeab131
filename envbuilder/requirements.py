"""Requirements as packages write them (PEP 508), read once and compared by name in any spelling."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from packaging.markers import Marker, default_environment
from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as _Requirement

from envbuilder import versions


class Requirement(NamedTuple):
    """`torch` and `torch_npu` style name, the condition on its version, and when it applies."""

    name: str
    extras: frozenset[str]
    specifier: str
    marker: Marker | None
    text: str

    @property
    def unconditional(self) -> str:
        """The requirement without its marker, once that was found to hold."""
        return self.text.partition(";")[0].strip()

    def applies(self, python: str, arch: str) -> bool:
        """Whether the marker holds on Linux with this Python and machine."""
        if self.marker is None:
            return True
        environment = {
            **default_environment(),
            "python_version": python,
            "python_full_version": f"{python}.0",
            "platform_machine": arch,
            "sys_platform": "linux",
            "platform_system": "Linux",
            "os_name": "posix",
            "extra": "",
        }
        return self.marker.evaluate({key: str(value) for key, value in environment.items()})

    def allows(self, version: str) -> bool:
        return versions.satisfies(version, self.specifier)


def normalize(name: str) -> str:
    """The one spelling used in the matrices: `torch-npu`, `torch.npu` and `Torch_NPU` are `torch_npu`."""
    return name.lower().replace("-", "_").replace(".", "_")


@lru_cache(maxsize=4096)
def parse(text: str) -> Requirement:
    """Raises ValueError with the reason where the text is no requirement."""
    try:
        requirement = _Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(f"'{text}' is not a requirement: {str(error).splitlines()[0]}") from None
    if requirement.url is not None:
        raise ValueError(f"'{text}' names an address; pin the component by version or commit instead")
    return Requirement(
        normalize(requirement.name),
        frozenset(requirement.extras),
        str(requirement.specifier),
        requirement.marker,
        text,
    )
