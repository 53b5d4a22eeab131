"""The wheel holds the data: an installed envbuilder works without a checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_wheel_works_on_its_own(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)]
    subprocess.run(build, check=True, cwd=tmp_path)
    (wheel,) = tmp_path.glob("envbuilder-*.whl")
    installed = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    # the folder of the wheel comes before the checkout, so the data must be found beside the code
    environment = {"PYTHONPATH": str(installed), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    expected = subprocess.run(
        [sys.executable, "-m", "envbuilder", "list"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    listed = subprocess.run(
        [sys.executable, "-m", "envbuilder", "list"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=environment,
    )
    assert listed.stdout == expected.stdout
    where = subprocess.run(
        [sys.executable, "-c", "from envbuilder import paths; print(paths.templates())"],
        capture_output=True, text=True, check=True, cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert Path(where.stdout.strip()).is_relative_to(installed)
    rendered = subprocess.run(
        [sys.executable, "-m", "envbuilder", "render", "--hw", "atlas-800t-a3"],
        capture_output=True, text=True, check=True, cwd=tmp_path, env=environment,
    )  # fmt: skip
    # the lock stands in the Dockerfile by its digest
    title = next(line for line in rendered.stdout.splitlines() if "image.title=" in line)
    environment_id = title.split("=")[1].split()[0]
    assert rendered.stdout == (ROOT / "dockerfiles" / environment_id / "Dockerfile").read_text(encoding="utf-8")
