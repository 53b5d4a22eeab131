"""Checks every node of a Ray cluster, with one task on each, and fails with a message if they differ."""

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


def look(expected: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return what this node has, and what is wrong with it."""

    def digest(path: str) -> str:
        """Return the version that a file states, or the digest of its content."""
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

    wrong, interfaces = [], [path.name for path in Path("/sys/class/net").iterdir()]
    for name in expected["interfaces"]:
        value = os.environ.get(name)
        if value and value not in interfaces:
            wrong.append(f"{name} is {value}, and the interfaces are {', '.join(sorted(interfaces))}")
    # HCCL_NPU_SOCKET_PORT_RANGE needs no check: those ports belong to the NPUs alone
    ports = os.environ.get("HCCL_HOST_SOCKET_PORT_RANGE", "")
    bounds = re.fullmatch(r"(\d+)-(\d+)", ports)
    # each process takes one port; other connections of the system may occupy some
    free = sum(map(is_free, range(int(bounds[1]), int(bounds[2]) + 1))) if bounds else expected["npus"]
    if free < expected["npus"]:
        ports_left = f"{free} ports of HCCL_HOST_SOCKET_PORT_RANGE, {ports}, are free"
        wrong.append(f"{ports_left}, and the training takes {expected['npus']}")
    device = Path(expected["device"] or "/dev/none")
    devices = len(list(device.parent.glob(f"{device.name}[0-9]*")))
    if expected["device"] and devices < expected["npus"]:
        wrong.append(f"it has {devices} NPUs, and the training takes {expected['npus']} on every node")
    facts = {"image": os.environ.get(expected["image"], "unknown"), "number of NPUs": devices}
    return {**facts, **{name: digest(path) for name, path in expected["files"].items()}}, wrong


def nodes_of(expected: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the expected nodes, once they have joined with their devices."""
    deadline = time.time() + PATIENCE
    while True:
        nodes = {node["NodeManagerAddress"]: node for node in ray.nodes() if node["Alive"]}
        counts = {address: node["Resources"].get(expected["resource"], 0) for address, node in nodes.items()}
        ready = [node for address, node in nodes.items() if counts[address] >= expected["npus"]]
        if len(ready) >= expected["nodes"]:
            return ready
        if time.time() > deadline:
            joined = ", ".join(f"{address} with {count:g}" for address, count in counts.items())
            sys.exit(
                f"preflight: {len(ready)} of {expected['nodes']} nodes have {expected['npus']} NPUs for Ray: {joined}"
            )
        time.sleep(2)


def main() -> None:
    expected = json.loads(sys.argv[1])
    ray.init(address="auto", log_to_driver=False)
    task, nodes = ray.remote(num_cpus=0)(look), nodes_of(expected)
    places = [NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False) for node in nodes]
    answers = ray.get([task.options(scheduling_strategy=place).remote(expected) for place in places])
    found = dict(zip([node["NodeManagerAddress"] for node in nodes], answers, strict=True))
    problems = [f"{address}: {text}" for address, (_, wrong) in found.items() for text in wrong]
    for name in answers[0][0]:
        if len({facts[name] for facts, _ in answers}) > 1:
            values = ", ".join(f"{address} has {facts[name]}" for address, (facts, _) in found.items())
            problems.append(f"the nodes differ in the {name}: {values}")
    if problems:
        sys.exit("\n".join(f"preflight: {text}" for text in problems))
    same = ", ".join(f"{name} {value}" for name, value in answers[0][0].items())
    sys.stdout.write(f"preflight: {len(nodes)} nodes are alike: {same}\n")


main()
