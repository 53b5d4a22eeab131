"""Collects a report of this machine, or of an image, in the form that users paste."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from envbuilder.docker.engine import Docker
from envbuilder.doctor.machine import Machine
from envbuilder.errors import EnvbuilderError, NoMatchError
from envbuilder.process import run

_SECONDS = 120
# prints the packages of the first Python on the PATH, the architecture, and the versions of CANN
_SCRIPT = """
for python in python3 python; do
  command -v $python >/dev/null && break
done
echo "Python version: $($python -c 'import platform; print(platform.python_version())')"
$python -m pip list --format=freeze --disable-pip-version-check 2>/dev/null || $python - <<'END'
from importlib.metadata import distributions
for item in distributions():
    print(f"{item.metadata['Name']}=={item.version}")
END
echo "Architecture: $(uname -m)"
cd /usr/local/Ascend 2>/dev/null || exit 0
for file in */latest/*-linux/ascend_*_install.info cann*/*-linux/ascend_*_install.info; do
  [ -f "$file" ] && echo "cat $file" && cat "$file" && echo
done
true
"""


def of_machine(machine: Machine) -> str:
    """Return what is installed on this machine, and the output of the vendor's tools."""
    parts = [_output(["bash", "-c", _SCRIPT]), machine.npu_smi_output]
    for name, values in (("driver", machine.driver), ("firmware", machine.firmware)):
        if values:
            lines = "\n".join(f"{key}={value}" for key, value in values.items())
            parts.append(f"cat {name}/version.info\n{lines}\n")
    return "\n".join(parts)


def of_image(image: str, engine: Docker) -> str:
    """Return what is installed in an image, read in a container without a network that imports and changes nothing."""
    found = engine.image(image)
    if found is None:
        raise NoMatchError(f"there is no image {image}", hint=f"docker pull {image}")
    command = ["docker", "run", "--rm", "--network", "none", "--entrypoint", "bash", found.id, "-c", _SCRIPT]
    return f"image {image}\n" + _output(command)


def _output(command: Sequence[str]) -> str:
    if shutil.which(command[0]) is None:
        raise EnvbuilderError(f"the command {command[0]} is not installed")
    done = run(command, seconds=_SECONDS)
    if not done.ok:
        raise EnvbuilderError(f"{command[0]} fails: {done.error_text.strip()[-300:]}")
    return done.text
