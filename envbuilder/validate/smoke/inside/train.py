"""Starts the framework's trainer inside the environment that is validated.

    python train.py JOB.json

A job has the seed and the sizes of the assets, the variables of the run, the resources that Ray gets, the module
of the trainer and its arguments. With an address, the run joins the Ray cluster at that address. This script decides
nothing: the job is complete.
"""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from assets import make_assets

# seconds; Ray looks for new lines twice a second
_FORWARDING = 2


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    # into a pipe Python writes blocks, so that the errors of workers would appear in the middle of a line
    assert isinstance(sys.stdout, io.TextIOWrapper)  # noqa: S101
    sys.stdout.reconfigure(line_buffering=True)
    for name in job["unset"]:
        os.environ.pop(name, None)
    make_assets(Path(job["folder"]), **job["assets"])
    sys.argv = [job["trainer"], *job["arguments"]]
    if job["resources"] is None:
        runpy.run_module(job["trainer"], run_name="__main__", alter_sys=True)
    else:
        _train_with_ray(job)


def _train_with_ray(job: dict[str, Any]) -> None:
    import ray

    own = {
        # never another cluster on this host
        "address": "local",
        "num_cpus": job["cpus"],
        "resources": job["resources"],
        "num_gpus": job["gpus"],
        "include_dashboard": False,
        "object_store_memory": 2**28,
    }
    # a cluster that is already running has its own resources
    where = {"address": job["address"]} if "address" in job else own
    # the workers are other processes, to which Ray passes the variables
    ray.init(**where, runtime_env={"env_vars": job["variables"]})
    logs = Path(ray._private.worker._global_node.get_logs_dir_path())
    _await_last_lines(ray)
    try:
        runpy.run_module(job["trainer"], run_name="__main__", alter_sys=True)
    except ray.exceptions.RayActorError as error:
        traceback.print_exc()
        sys.exit(_last_words(logs, str(error)))
    ray.shutdown()


def _await_last_lines(ray: Any) -> None:
    """Make Ray end a little later: it forwards the lines of workers only some time after they were written."""
    end = ray.shutdown

    def shutdown(*arguments: Any, **settings: Any) -> None:
        if ray.is_initialized():
            time.sleep(_FORWARDING)
        end(*arguments, **settings)

    ray.shutdown = shutdown


def _last_words(logs: Path, error: str) -> str:
    """Return the last lines of a dead worker: Ray reports only that it died, and does not forward these lines."""
    dead = re.search(r"^\s*pid: (\d+)", error, re.MULTILINE)
    written = [file.read_text(errors="replace") for file in logs.glob(f"worker-*-{dead[1]}.err")] if dead else []
    return "\n".join(line for text in written for line in text.splitlines()[-100:])


if __name__ == "__main__":
    main()
