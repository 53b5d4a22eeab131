"""The specification of a stand-in for an environment: paths, version, chips."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from envbuilder.environment import Environment
from envbuilder.errors import MatrixError
from envbuilder.language import tr
from envbuilder.matrix.record import Record
from envbuilder.stand_in.npu_smi import npu_smi

# the code that is copied into a container, and its folder that Python loads in every process of a proof
INSIDE = Path(__file__).parent / "inside"
HOOK = "hook"
_PREFIX = "Ascend"


class Spec(Record):
    """The input of `inside/make_cann.py`."""

    cann: str
    home: str
    set_env: str
    nnal_set_env: str
    # the file in which builds look for the toolkit
    install_info: str
    soc: str
    devices: int
    memory_gib: int
    # a program and its path; both are empty for a build
    npu_smi: str = ""
    npu_smi_path: str = ""
    # the folder whose sitecustomize every Python loads; empty for a build
    hook: str = ""

    @property
    def root(self) -> str:
        """The folder that contains the whole toolkit."""
        return str(Path(self.set_env).parents[1])


def lay_out(spec: Spec, folder: Path) -> None:
    """Write the code that makes a stand-in, and its specification, into a folder of a container or a build."""
    shutil.copytree(INSIDE, folder / INSIDE.name, ignore=shutil.ignore_patterns("__pycache__"))
    document = {name: str(getattr(spec, name)) for name in spec.record_types}
    (folder / "spec.json").write_text(json.dumps(document), encoding="utf-8")


def spec_of(environment: Environment, *, devices: int | None = None, hook: str = "") -> Spec:
    """Return the specification for a build or, with a hook, for a proof in which programs see `devices`."""
    hardware = environment.hardware
    if not hardware.soc:
        message = tr("{hardware} has no SOC name, which a stand-in of CANN needs", hardware=hardware.title)
        raise MatrixError.of(message, hardware.where, tr("rehearse an environment for an NPU"))
    paths = {
        name: environment.expand(f"${{build.cann.{name}}}", hardware.where)
        for name in ("home", "set_env", "nnal_set_env", "install_info")
    }
    soc = _PREFIX + next(iter(hardware.soc.values()))[len(_PREFIX) :].upper()
    count, memory = devices or hardware.devices, hardware.memory_gb or 1
    place = next((path for path in environment.run.mounts if path.endswith("npu-smi")), "") if environment.run else ""
    driver = environment.stand_in.driver if environment.stand_in else ""
    return Spec(
        **paths,
        cann=environment.expand("${version.cann}", hardware.where),
        soc=soc,
        devices=count,
        memory_gib=memory,
        npu_smi=npu_smi(soc, count, hardware.devices_per_card, memory, driver) if hook else "",
        npu_smi_path=place if hook else "",
        hook=hook,
    )
