"""Looks at every node of a Ray cluster, one task on each, and ends with a message where they differ."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import sys
import time
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

PATIENCE = int(os.environ.get("PREFLIGHT_SECONDS", "300"))


def look(wish: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What this node has, and what is wrong with it."""

    def digest(path: str) -> str:
        """The version that a file tells, or what stands for all of it."""
        content = Path(path).read_bytes() if Path(path).exists() else b"Version=none"
        version = re.search(rb"(?mi)^version=(\S+)", content)
        return version[1].decode() if version else hashlib.sha256(content).hexdigest()[:16]

    def is_free(port: int) -> bool:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                return False
            return True

    wrong, there = [], [path.name for path in Path("/sys/class/net").iterdir()]
    for name in wish["interfaces"]:
        value = os.environ.get(name)
        if value and value not in there:
            wrong.append(f"{name} is {value}, and the interfaces are {', '.join(sorted(there))}")
    # the range beside it, HCCL_NPU_SOCKET_PORT_RANGE, is of ports that the NPUs have by themselves
    ports = os.environ.get("HCCL_HOST_SOCKET_PORT_RANGE", "")
    bounds = re.fullmatch(r"(\d+)-(\d+)", ports)
    # each process takes one of them; any connection of the system may have some
    free = sum(map(is_free, range(int(bounds[1]), int(bounds[2]) + 1))) if bounds else wish["npus"]
    if free < wish["npus"]:
        told = f"{free} ports of HCCL_HOST_SOCKET_PORT_RANGE, {ports}, are free"
        wrong.append(f"{told}, and the training takes {wish['npus']}")
    device = Path(wish["device"] or "/dev/none")
    devices = len(list(device.parent.glob(f"{device.name}[0-9]*")))
    if wish["device"] and devices < wish["npus"]:
        wrong.append(f"it has {devices} NPUs, and the training takes {wish['npus']} of every node")
    facts = {"image": os.environ.get(wish["image"], "unknown"), "number of NPUs": devices}
    return {**facts, **{name: digest(path) for name, path in wish["files"].items()}}, wrong


def nodes_of(wish: dict[str, Any]) -> list[dict[str, Any]]:
    """All that are expected, once they have joined with their devices."""
    late = time.time() + PATIENCE
    while True:
        nodes = {node["NodeManagerAddress"]: node for node in ray.nodes() if node["Alive"]}
        counts = {address: node["Resources"].get(wish["resource"], 0) for address, node in nodes.items()}
        ready = [node for address, node in nodes.items() if counts[address] >= wish["npus"]]
        if len(ready) >= wish["nodes"]:
            return ready
        if time.time() > late:
            told = ", ".join(f"{address} with {count:g}" for address, count in counts.items())
            sys.exit(f"preflight: {len(ready)} of {wish['nodes']} nodes have {wish['npus']} NPUs for Ray: {told}")
        time.sleep(2)


def main() -> None:
    wish = json.loads(sys.argv[1])
    ray.init(address="auto", log_to_driver=False)
    task, nodes = ray.remote(num_cpus=0)(look), nodes_of(wish)
    places = [NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False) for node in nodes]
    answers = ray.get([task.options(scheduling_strategy=place).remote(wish) for place in places])
    found = dict(zip([node["NodeManagerAddress"] for node in nodes], answers, strict=True))
    problems = [f"{address}: {text}" for address, (_, wrong) in found.items() for text in wrong]
    for name in answers[0][0]:
        if len({facts[name] for facts, _ in answers}) > 1:
            told = ", ".join(f"{address} has {facts[name]}" for address, (facts, _) in found.items())
            problems.append(f"the nodes differ in the {name}: {told}")
    if problems:
        sys.exit("\n".join(f"preflight: {text}" for text in problems))
    same = ", ".join(f"{name} {value}" for name, value in answers[0][0].items())
    sys.stdout.write(f"preflight: {len(nodes)} nodes are alike: {same}\n")


main()
