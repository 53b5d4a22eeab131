"""Starts ROLL's own script with the settings of the smoke run: it reads them from a file only."""

from __future__ import annotations

import os
import runpy
import sys
import tempfile
from pathlib import Path


def main() -> None:
    import reward
    import roll
    import roll_reward
    from omegaconf import OmegaConf
    from ray import cloudpickle

    # the workers of Ray cannot import from this folder
    for module in (reward, roll_reward):
        cloudpickle.register_pickle_by_value(module)
    folder = Path(tempfile.mkdtemp())
    OmegaConf.save(OmegaConf.from_dotlist(sys.argv[1:]), folder / "smoke.yaml")
    script = Path(roll.__file__).resolve().parents[1] / "examples" / "start_rlvr_pipeline.py"
    # Hydra wants the folder relative to the script
    sys.argv = [str(script), "--config_path", os.path.relpath(folder, script.parent), "--config_name", "smoke"]
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
