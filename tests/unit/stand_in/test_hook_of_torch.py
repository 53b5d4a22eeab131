"""A torch that is built for CUDA, in a rehearsal of a row whose torch is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from envbuilder.stand_in import HOOK, INSIDE


def test_torch_of_the_package_index_looks_as_built_without_cuda(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("from .version import cuda\nfrom . import version\n")
    (tmp_path / "torch" / "version.py").write_text("cuda = '12.8'\n__version__ = '2.8.0'\n")
    variables = {**os.environ, "PYTHONPATH": f"{INSIDE / HOOK}:{tmp_path}"}
    code = "import torch; print(torch.cuda, torch.version.cuda, torch.version.__version__)"
    shown = subprocess.run([sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True)
    assert shown.stdout == "None None 2.8.0\n"
