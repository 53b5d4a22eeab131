"""Output of `quickstart`: commands that a shell runs, the same as JSON, and files that meet the schemas of their tools."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from envbuilder import quickstart
from envbuilder.environment.coordinates import environments
from envbuilder.launch.k8s import name_of
from envbuilder.matrix import Matrix
from tests.conftest import A2_VLLM, A2_X86, A3_SGLANG, OPENRLHF, run, succeeded
from tests.helpers.documented_commands import SEED_003
from tests.helpers.quickstarts import mapping
from tests.helpers.schemas import published_schema

CPU = "verl-v0.6.0-sglang-cpu-aarch64"
V040 = "verl-v0.4.0-vllm-a2-aarch64"
IMAGE = "envbuilder/verl:v0.6.0-cann8.3.rc1-torch_npu2.6.0.post3-a3-ubuntu22.04-py3.11-sglang-aarch64"


def printed(*arguments: str) -> str:
    result = succeeded(run("quickstart", *arguments, DOCKER_HOST="unix:///nowhere"))
    return result.stdout


# --- shell and JSON --------------------------------------------------------------------------------------


# records its arguments; `envbuilder run` also runs what is for the container
RECORDS = """#!/bin/bash
printf '%s\\0' {name} "$@" >> {folder}/calls; echo >> {folder}/calls
while [ {name} = envbuilder ] && [ $# -gt 0 ]; do word=$1; shift; [ "$word" != -- ] || exec "$@"; done
"""


def executed(text: str, folder: Path) -> list[list[str]]:
    """Run commands with programs that only record their arguments, and return those calls in order."""
    for name in ("envbuilder", "python3", "torchrun", "deepspeed", "ray", "docker"):
        program = folder / name
        program.write_text("echo sha256:1" if name == "docker" else RECORDS.format(name=name, folder=folder))
        program.chmod(0o755)
    for path in set(re.findall(r"/opt/envbuilder/(\S+\.py)", text)):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).touch()
    home = folder / "a b"
    home.mkdir(exist_ok=True)
    variables = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "HOME": str(home)}
    script = text.replace("/opt/envbuilder", str(folder))
    subprocess.run(["bash", "-e", "-c", script], check=True, env=variables, cwd=folder)
    lines = (folder / "calls").read_text().split("\0\n")
    return [line.split("\0") for line in lines if line]


def test_the_commands_run_in_a_shell(tmp_path: Path) -> None:
    text = printed(A3_SGLANG, "--recipe", "grpo", "--model", "/m/it's $5")
    subprocess.run(["bash", "-n", "-c", text], check=True)
    container, data, training = executed(text, tmp_path)
    kept = ["--volume", "./quickstart:/work", "--env", "HOME=/work"]
    assert (
        container[:9] == ["envbuilder", "run", A3_SGLANG, "--npus", "4", *kept] and (tmp_path / "quickstart").is_dir()
    )
    home = str(tmp_path / "a b")
    assert data[-2:] == ["--local_save_dir", f"{home}/data/gsm8k"]
    wanted = mapping(SEED_003.replace("$HOME", home.replace(" ", "\0")).split()) | {
        "actor_rollout_ref.model.path": r"'/m/it\'s $5'"
    }
    assert mapping(training[3:]) == {key: value.replace("\0", " ") for key, value in wanted.items()}
    lines = [line for line in text.partition("<<")[2].splitlines() if "=" in line and line.startswith("  ")]
    assert len(lines) == len(wanted), "one option per line"


def test_models_may_come_from_a_mirror() -> None:
    mirror = "https://hub.example.com"
    given = printed(A3_SGLANG, "--model-mirror", mirror)
    assert f"--env HF_ENDPOINT={mirror}" in given and "HF_ENDPOINT" not in printed(A3_SGLANG)
    service = yaml.safe_load(printed(A3_SGLANG, "--recipe", "sft", "--format", "compose", "--model-mirror", mirror))
    (found,) = service["services"].values()
    assert found["environment"]["HF_ENDPOINT"] == mirror and found["environment"]["HOME"] == "/work"
    assert {"type": "volume", "source": "quickstart", "target": "/work"} in found["volumes"]


@pytest.mark.parametrize(
    ("identifier", "recipe"), [(A3_SGLANG, "grpo"), (A2_VLLM, "grpo"), (OPENRLHF, "grpo"), (CPU, "grpo")]
)
def test_the_commands_of_several_nodes_run_in_a_shell(tmp_path: Path, identifier: str, recipe: str) -> None:
    text = printed(identifier, "--recipe", recipe, "--nodes", "2", "--head", "10.0.0.1")
    subprocess.run(["bash", "-n", "-c", text], check=True)
    found = executed(text, tmp_path)
    assert found[0][-2:] == ["--env", "ENVBUILDER_IMAGE=sha256:1"]
    starts = [words[2] for words in found if words[:2] == ["ray", "start"]]
    assert starts == ["--head", "--address=10.0.0.1:6379"]
    (preflight,) = [words for words in found if words[:2] == ["python3", "-"]]
    assert json.loads(preflight[2])["nodes"] == 2
    assert found.index(preflight) < len(found) - 1, "before the training"


@pytest.mark.parametrize("arguments", [(V040, "--recipe", "sft"), (OPENRLHF, "--recipe", "sft", "--npus", "1")])
def test_sft_starts_one_process_per_device_without_ray(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    found = executed(printed(*arguments), tmp_path)
    assert found[-1][0] in {"torchrun", "deepspeed"} and not any(words[0] == "ray" for words in found)


def test_the_preflight_compiles() -> None:
    text = printed(A2_VLLM, "--recipe", "grpo", "--nodes", "2")
    source = text.split("<<'END_OF_PROGRAM'\n")[1].split("\nEND_OF_PROGRAM")[0]
    compile(source, "preflight", "exec")


NodeState = tuple[dict[str, Any], list[str]]


def inspect_node(monkeypatch: pytest.MonkeyPatch, **options: Any) -> NodeState:
    """Inspect this machine as the preflight inspects a node, without Ray; return the facts and the problems."""
    for name in ("ray", "ray.util", "ray.util.scheduling_strategies"):
        stub: Any = ModuleType(name)
        stub.NodeAffinitySchedulingStrategy = None
        monkeypatch.setitem(sys.modules, name, stub)
    source = (Path(quickstart.__file__).parent / "inside" / "preflight.py").read_text()
    space: dict[str, Any] = {"__name__": "preflight"}
    exec(source.removesuffix("main()\n"), space)  # noqa: S102
    defaults: dict[str, Any] = {"interfaces": [], "device": None, "npus": 2, "files": {}, "image": "IMAGE"}
    state: NodeState = space["look"]({**defaults, **options})
    return state


def test_the_facts_that_the_preflight_collects(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"davinci{number}").touch()
    (tmp_path / "davinci_manager").touch()
    (tmp_path / "version.info").write_text("Innerversion=V1\nVersion=25.3.rc1\n")
    (tmp_path / "bill").write_text("{}")
    files = {"driver": str(tmp_path / "version.info"), "bill": str(tmp_path / "bill"), "other": str(tmp_path / "none")}
    monkeypatch.setenv("IMAGE", "sha256:1")
    monkeypatch.setenv("SOME_IFNAME", "lo")
    facts, problems = inspect_node(
        monkeypatch, device=str(tmp_path / "davinci"), files=files, interfaces=["SOME_IFNAME", "UNSET_IFNAME"]
    )
    assert problems == []
    assert facts == {
        "image": "sha256:1",
        "number of NPUs": 2,
        "driver": "25.3.rc1",
        "bill": "44136fa355b3678a",
        "other": "none",
    }


def test_the_problems_that_the_preflight_finds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "davinci0").touch()
    monkeypatch.setenv("SOME_IFNAME", "bond77")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for kind in ("HOST", "NPU"):
            monkeypatch.setenv(f"HCCL_{kind}_SOCKET_PORT_RANGE", f"{port}-{port}")
        _, problems = inspect_node(monkeypatch, device=str(tmp_path / "davinci"), interfaces=["SOME_IFNAME"])
    assert len(problems) == 3, "ports of the NPUs are not those of the host"
    assert problems[0].startswith("SOME_IFNAME is bond77, and the interfaces are ")
    assert problems[1] == f"0 ports of HCCL_HOST_SOCKET_PORT_RANGE, {port}-{port}, are free, and the training takes 2"
    assert problems[2] == "it has 1 NPUs, and the training takes 2 on every node"


def test_options_of_the_container_are_printed() -> None:
    text = printed(
        A3_SGLANG, "--recipe", "grpo", "--volume", "/data:/data:ro", "--env", "HF_ENDPOINT=https://x.example"
    )
    assert "--volume /data:/data:ro" in text and "--env HF_ENDPOINT=https://x.example" in text


@pytest.mark.parametrize("nodes", ["1", "2"])
@pytest.mark.parametrize("form", ["compose", "k8s"])
def test_options_of_the_container_are_in_every_file(form: str, nodes: str) -> None:
    options = (
        "--recipe",
        "grpo",
        "--nodes",
        nodes,
        "--format",
        form,
        "--volume",
        "/data:/data",
        "--env",
        "HF_ENDPOINT=https://x",
    )
    text = printed(A3_SGLANG, *options)
    assert text.count("HF_ENDPOINT") == int(nodes) == text.count("https://x")


def test_a_model_on_the_host_has_to_be_mounted(tmp_path: Path) -> None:
    words = ("quickstart", "verl-v0.6.0-sglang-cpu-aarch64", "--recipe", "grpo", "--run", "--model", str(tmp_path))
    result = run(*words)
    assert result.returncode == 2 and f"hint: --volume {tmp_path}:{tmp_path}" in result.stderr
    # printed commands may be for another host, which has the model
    result = run(*(word for word in words if word != "--run"))
    assert result.returncode == 0 and f"not in the container: --volume {tmp_path}:{tmp_path}" in result.stderr


def test_the_registry_of_the_image_can_be_chosen() -> None:
    text = printed(A2_VLLM, "--recipe", "grpo", "--nodes", "2", "--registry", "quay.example/x")
    assert "  --registry quay.example/x \\\n" in text and "'{{.Id}}' quay.example/x/verl:v0.5.0" in text
    assert "--registry" not in printed(A2_VLLM, "--recipe", "grpo")


def test_a_script_promises_checkpoints_only_where_they_are_saved() -> None:
    text = printed("verl-v0.6.1-vllm-a2-aarch64")
    assert "experiment_name=qwen2_5_0_5b_grpo_vllm_ascend" in text
    assert (
        "# data, models and caches stay in this folder\n# no checkpoints are saved, as trainer.save_freq is -1;" in text
    )
    for words in (["--set", "trainer.save_freq=5"], ["--branch", "v0.9.1"]):
        saving = printed("--hw", "a2", "--branch", "v0.6.1", *words)
        assert (
            "# data, models, caches and checkpoints stay in this folder\n" in saving and "no checkpoints" not in saving
        )


def test_the_sources_of_a_script_have_a_heading() -> None:
    first = "# the documents and sources of these commands:\n#   verl-project/verl@"
    assert printed(A2_VLLM).startswith(f"#!/usr/bin/env bash\n{first}")
    assert printed(A2_VLLM, "--nodes", "2").startswith(first)


def test_json_holds_the_same_steps() -> None:
    found = json.loads(printed(A2_VLLM, "--recipe", "grpo", "--nodes", "2", "--json"))
    assert found["schema_version"] == 1 and found["environment"] == A2_VLLM and found["recipe"] == "grpo"
    assert [step["where"] for step in found["steps"]] == ["all", "all", "head", "worker", "head", "head"]
    assert all(set(step) == {"title", "command", "variables", "where"} for step in found["steps"])
    assert found["steps"][3]["variables"]["HCCL_CONNECT_TIMEOUT"] == "3600"
    assert "verl-project/verl/pull/332" in found["source"] and len(found["departures"]) == 3
    assert found["settings"]["trainer.nnodes"] == "2" and found["npus"] == 8


def test_notes_go_to_stderr() -> None:
    result = run("quickstart", A2_VLLM, "--recipe", "grpo", "--nodes", "2")
    assert "MASTER-NODE-ADDRESS stands for" in result.stderr and "not as documented: verl refuses" in result.stderr
    assert "not as documented" not in result.stdout
    assert run("quickstart", A2_VLLM, "--recipe", "grpo", "-q").stderr == ""
    assert "VLLM_USE_V1=1" in run("quickstart", OPENRLHF, "--recipe", "grpo").stderr
    assert "CPU environment has no NPUs" in run("quickstart", CPU, "--recipe", "grpo").stderr


# --- compose ---------------------------------------------------------------------------------------------


def test_a_compose_file_of_a_cluster_without_devices() -> None:
    document = yaml.safe_load(printed(CPU, "--recipe", "grpo", "--nodes", "3", "--npus", "1", "--format", "compose",
                                      "--set", "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
                                      "--set", "actor_rollout_ref.actor.ulysses_sequence_parallel_size=1",
                                      "--set", "data.train_batch_size=48",
                                      "--set", "actor_rollout_ref.actor.ppo_mini_batch_size=48"))  # fmt: skip
    jsonschema.validate(document, published_schema("compose-spec"))
    assert list(document["services"]) == ["head", "worker-1", "worker-2"] and document["networks"] == {"ray": {}}
    head, worker = document["services"]["head"], document["services"]["worker-1"]
    assert head["healthcheck"]["test"] == ["CMD", "ray", "status"]
    assert worker["depends_on"] == {"head": {"condition": "service_healthy"}} and "healthcheck" not in worker
    for name, service in document["services"].items():
        assert service["networks"] == ["ray"] and service["hostname"] == name
        assert "devices" not in service and "network_mode" not in service
        subprocess.run(["bash", "-n", "-c", service["command"][2].replace("$$", "$")], check=True)
    assert "--head" in head["command"][2] and "END_OF_PROGRAM" in head["command"][2]
    assert "--address=head:6379" in worker["command"][2] and worker["command"][2].endswith("--block")
    assert "main_ppo" not in head["command"][2], "no training without devices"


def test_a_compose_file_of_one_host_shares_its_devices() -> None:
    document = yaml.safe_load(printed(A3_SGLANG, "--recipe", "grpo", "--nodes", "2", "--format", "compose"))
    jsonschema.validate(document, published_schema("compose-spec"))
    head, worker = document["services"].values()
    cards = [
        [item for item in service["devices"] if "davinci_" not in item and "davinci" in item]
        for service in (head, worker)
    ]
    assert [item.split(":")[0] for item in cards[0]] == [f"/dev/davinci{number}" for number in range(4)]
    assert [item.split(":")[0] for item in cards[1]] == [f"/dev/davinci{number}" for number in range(4, 8)]
    assert head["environment"]["GLOO_SOCKET_IFNAME"] == "eth0" and head["environment"]["HCCL_CONNECT_TIMEOUT"] == "3600"
    assert "main_ppo" in head["command"][2] and "main_ppo" not in worker["command"][2]
    assert "gsm8k.py" in worker["command"][2], "every node reads the data"


def test_the_files_of_one_node() -> None:
    document = yaml.safe_load(printed(V040, "--recipe", "sft", "--format", "compose"))
    jsonschema.validate(document, published_schema("compose-spec"))
    (service,) = document["services"].values()
    assert "torchrun" in service["command"][2] and service["network_mode"] == "host"
    pod = yaml.safe_load(printed(V040, "--recipe", "sft", "--format", "k8s"))
    kubernetes_validate.validate(pod, "1.31", strict=True)
    assert pod["spec"]["containers"][0]["resources"] == {"limits": {"huawei.com/Ascend910": 8}}


# --- KubeRay ---------------------------------------------------------------------------------------------


def files(*arguments: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the config map with the script of the head, and the job."""
    script, job = yaml.safe_load_all(printed(*arguments, "--format", "k8s"))
    return script, job


def pods(job: dict[str, Any]) -> list[dict[str, Any]]:
    cluster = job["spec"]["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster.get("workerGroupSpecs", [])]
    return [group["template"]["spec"] for group in groups]


@pytest.mark.parametrize("version", ["1.25", "1.34"])
def test_a_job_of_kuberay(version: str) -> None:
    script, job = files(
        A3_SGLANG, "--recipe", "grpo", "--nodes", "3", "--npus", "8", "--interface", "bond0", "--volume", "models:/models",
        "--set", "data.train_batch_size=48", "--set", "actor_rollout_ref.actor.ppo_mini_batch_size=48",
    )  # fmt: skip
    kubernetes_validate.validate(script, version, strict=True)
    assert set(job) == {"apiVersion", "kind", "metadata", "spec"}
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert job["metadata"]["name"] == "grpo-verl-v0-6-0-sglang-a3"
    assert set(job["spec"]) == {"entrypoint", "shutdownAfterJobFinishes", "rayClusterSpec", "submitterPodTemplate"}
    text = script["data"]["train.sh"]
    assert job["spec"]["entrypoint"] == "bash /opt/envbuilder/job/train.sh"
    assert text.index("set -e") < text.index("nodes are alike") < text.index("python3 -m verl.trainer.main_ppo")
    assert 'data.train_files="$HOME"/data/gsm8k/train.parquet' in text
    assert subprocess.run(["bash", "-n"], input=text, text=True, check=False).returncode == 0
    cluster = job["spec"]["rayClusterSpec"]
    assert set(cluster) == {"rayVersion", "headGroupSpec", "workerGroupSpecs"} and cluster["rayVersion"] == "2.46.0"
    head, (workers,) = cluster["headGroupSpec"], cluster["workerGroupSpecs"]
    assert set(head) == {"rayStartParams", "template"}
    assert set(workers) == {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"}
    assert (workers["replicas"], workers["minReplicas"], workers["maxReplicas"]) == (2, 2, 2)
    # KubeRay puts it behind --resources= in a line for a shell
    assert json.loads(json.loads(head["rayStartParams"]["resources"])) == {"NPU": 8}
    for spec in [*pods(job), job["spec"]["submitterPodTemplate"]["spec"]]:
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}
        kubernetes_validate.validate(pod, version, strict=True)
        assert spec["nodeSelector"] == {"kubernetes.io/arch": "arm64"}
    for spec in pods(job):
        (container,) = spec["containers"]
        assert container["image"] == IMAGE and "args" not in container and "command" not in container
        assert container["resources"] == {"limits": {"huawei.com/Ascend910": 8}}
        assert {item["name"]: item["value"] for item in container["env"]}["HCCL_SOCKET_IFNAME"] == "bond0"
        (first,) = spec["initContainers"]
        assert "gsm8k.py" in first["args"][2] and first["volumeMounts"] == container["volumeMounts"]
        assert {"name": "data", "mountPath": "/root/data/gsm8k"} in container["volumeMounts"]
        assert {"name": "job", "mountPath": "/opt/envbuilder/job"} in container["volumeMounts"]
        assert {"name": "job", "configMap": {"name": script["metadata"]["name"]}} in spec["volumes"]
        assert {item["name"] for item in spec["volumes"]} == {item["name"] for item in container["volumeMounts"]}


def test_job_names_are_short_enough_for_kuberay(matrix: Matrix) -> None:
    names = [name_of(f"grpo-{item.id.removesuffix(item.arch)}") for item in environments(matrix)]
    assert max(map(len, names)) <= 47, "longer names are cut, and two jobs could get the same one"
    _, job = files(A2_X86, "--recipe", "grpo", "--nodes", "2", "--npus", "8")
    assert job["metadata"]["name"] == "grpo-verl-v0-4-1-vllm-a2"


def test_data_on_a_volume_gets_no_other_mount() -> None:
    _, job = files(A3_SGLANG, "--recipe", "grpo", "--nodes", "2", "--volume", "shared:/root/data")
    for spec in pods(job):
        assert [item["name"] for item in spec["volumes"]] == ["shm", "volume-0", "job"]
        assert spec["initContainers"][0]["volumeMounts"] == spec["containers"][0]["volumeMounts"]


def test_a_trainer_of_ray_job_submit_is_started_directly() -> None:
    """KubeRay submits the job itself, so the script has no `ray job submit`."""
    script, job = files(OPENRLHF, "--recipe", "grpo")
    assert script["data"]["train.sh"].startswith(
        "set -e\nmkdir -p ~ && cd\npython3 -m openrlhf.cli.train_ppo_ray \\\n  --ref_num_nodes 1 "
    )
    assert "workerGroupSpecs" not in job["spec"]["rayClusterSpec"] and "initContainers" not in pods(job)[0]


# --- the command -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([A3_SGLANG, "--recipe", "dpo"], 4, "it has: dapo, grpo, grpo-lora, grpo-megatron, grpo-vlm, sft"),
        ([A3_SGLANG, "--recipe", "grpo", "--npus", "3"], 5, "--npus 4"),
        ([A3_SGLANG, "--recipe", "grpo", "--set", "x"], 2, "--set takes KEY=VALUE"),
        ([A3_SGLANG, "--recipe", "grpo", "--json", "--format", "k8s"], 2, "leave out --json and --run"),
        ([A3_SGLANG, "--recipe", "grpo", "--worker", "--run"], 2, "--head ADDRESS"),
        (
            [A3_SGLANG, "--recipe", "grpo", "--nodes", "2", "--npus", "16", "--format", "compose"],
            2,
            "is not a multiple of",
        ),
        ([A2_VLLM, "--recipe", "grpo", "--nodes", "2", "--format", "compose"], 5, "2 nodes of 8 NPUs take 16: "),
        (["verl-v0.6.0-sglang-atlas-800t", "--recipe", "grpo"], 4, ""),
    ],
)
def test_errors_have_an_exit_code_and_a_text(arguments: list[str], code: int, words: str) -> None:
    result = run("quickstart", *arguments)
    assert result.returncode == code, result.stderr
    assert words in result.stderr and result.stdout == ""
