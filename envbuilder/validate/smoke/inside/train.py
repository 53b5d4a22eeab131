"""Starts the framework's own trainer inside the environment that is proven.

    python train.py JOB.json

A job has the seed and the sizes of the assets, the variables of the run, the resources that Ray is told of, the module
of the trainer and its arguments; with an address it joins the cluster there. Everything was decided outside; here it
is only carried out.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from pathlib import Path

from assets import make_assets


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    # workers are processes of their own: Ray hands the variables on to them
    os.environ.update(job["variables"])
    for name in job["unset"]:
        os.environ.pop(name, None)
    make_assets(Path(job["folder"]), **job["assets"])

    import ray

    own = {
        # and not a cluster that happens to run on this host
        "address": "local",
        "num_cpus": job["cpus"],
        "resources": job["resources"],
        "include_dashboard": False,
        "object_store_memory": 2**28,
    }
    # a cluster that was started before has its resources already
    where = {"address": job["address"]} if "address" in job else own
    ray.init(**where, runtime_env={"env_vars": job["variables"]})
    sys.argv = [job["trainer"], *job["arguments"]]
    runpy.run_module(job["trainer"], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
