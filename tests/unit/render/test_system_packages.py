"""The step that installs system packages, run by bash with programs that only note how they were called."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from envbuilder.matrix import Matrix
from envbuilder.render import commands_of
from tests.conftest import A3_SGLANG
from tests.helpers.rendered import plan

DPKG = """#!/bin/bash
code=0
for package in "${@:4}"; do
  case "$package" in
    %s) echo "dpkg-query: no packages found matching $package" >&2; code=1 ;;
    %s) echo config-files ;;
    *) echo installed ;;
  esac
done
exit $code
"""


def ran(matrix: Matrix, folder: Path, absent: str, removed: str) -> str:
    """Return the calls of apt-get on a base image that lacks one package and has the remains of another."""
    layer = next(item for item in plan(matrix, A3_SGLANG).layers if item.title == "system packages")
    programs = folder / "bin"
    programs.mkdir()
    for name, text in {
        "dpkg-query": DPKG % (absent, removed),
        # there is no such file, so whatever downloads it fails
        "apt-get": f"""#!/bin/bash
[[ "$*" == *--print-uris* ]] || exec echo "$@" >> {folder}/calls
echo "'file:{folder}/absent.deb' absent.deb 1 SHA256:0"
""",
        # this test is about the packages
        "rm": "#!/bin/bash\n",
        "find": "#!/bin/bash\n",
    }.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (folder / "calls").touch()
    subprocess.run(
        ["bash", "-o", "pipefail", "-c", commands_of(layer)],
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        check=True,
    )
    return (folder / "calls").read_text()


def test_a_base_image_that_has_all_needs_no_network(matrix: Matrix, tmp_path: Path) -> None:
    assert ran(matrix, tmp_path, "none", "none") == ""


@pytest.mark.parametrize(("absent", "removed"), [("git", "none"), ("none", "numactl")])
def test_one_missing_package_is_enough(matrix: Matrix, tmp_path: Path, absent: str, removed: str) -> None:
    calls = ran(matrix, tmp_path, absent, removed).splitlines()
    assert calls[0] == "update --option Acquire::Languages=none" and calls[1].startswith("install --yes ")
    assert {"git", "numactl"} <= set(calls[1].split())
