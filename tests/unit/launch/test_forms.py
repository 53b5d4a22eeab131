"""The three forms of a container: shell command, compose file and pod, checked with their schemas; and the command."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from envbuilder.errors import UsageError
from envbuilder.launch import FORMS
from envbuilder.launch.container import ContainerOptions, Launch, Mount, Needs, needs_elsewhere, needs_in_cluster
from envbuilder.launch.docker import arguments
from envbuilder.matrix import Matrix
from tests.conftest import A3_SGLANG, environment, run, succeeded
from tests.helpers.schemas import published_schema

CPU = "verl-v0.6.0-sglang-cpu-aarch64"
COMMAND = ("bash", "-c", 'echo "$HOME $$ $(date)"\n# it\'s')
VOLUMES = (Mount("/data sets", "/data"), Mount("cache", "/root/.cache", read_only=False))


def launch(needs: Needs, **more: Any) -> Launch:
    return Launch(image="some/image:1", arch="aarch64", needs=needs, title="verl-v1.0.0-x", **more)


def everything(matrix: Matrix, form: str) -> Launch:
    """Return a launch with every kind of value that must be quoted."""
    needs_of = needs_in_cluster if form == "k8s" else needs_elsewhere
    needs = needs_of(environment(matrix, A3_SGLANG), ContainerOptions(devices="2,3", multi_node=True, foreign=True))
    variables = {**needs.variables, "PROMPT": "a $(b) 'c' $D", "YES": "yes", "NUMBER": "0777"}
    return launch(replace(needs, variables=variables), command=COMMAND, volumes=VOLUMES, name="My.Run")


def test_the_printed_command_is_the_one_that_is_started(matrix: Matrix, tmp_path: Path) -> None:
    program = tmp_path / "docker"
    program.write_text('#!/bin/sh\nprintf \'%s\\0\' "$0" "$@"\n')
    program.chmod(0o755)
    what = everything(matrix, "docker")
    text = FORMS["docker"](what)
    assert all(line.count(" --") == 1 for line in text.splitlines()[1:-4])
    search = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    shown = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True, env=search)
    assert shown.stdout.split("\0")[1:-1] == arguments(what)[1:]
    assert "privileged" not in text


def plain(text: str) -> str:
    return text.replace("$$", "$")


def test_a_compose_file(matrix: Matrix) -> None:
    what = everything(matrix, "compose")
    document = yaml.safe_load(FORMS["compose"](what))
    jsonschema.validate(document, published_schema("compose-spec"))
    service = document["services"]["verl-v1.0.0-x"]
    assert tuple(map(plain, service["command"])) == COMMAND
    assert {name: plain(value) for name, value in service["environment"].items()} == what.needs.variables
    assert [item.split(":")[0] for item in service["devices"]] == list(what.needs.devices)
    assert all(item == f"{path}:{path}" for item, path in zip(service["devices"], what.needs.devices, strict=True))
    mounts = [Mount(item["source"], item["target"], item.get("read_only", False)) for item in service["volumes"]]
    assert mounts == [*what.needs.mounts, *VOLUMES]
    assert document["volumes"] == {"cache": {"name": "cache"}}
    wanted = {"container_name": "My.Run", "network_mode": "host", "shm_size": "16g", "init": True}
    assert {key: service[key] for key in wanted} == wanted
    assert "privileged" not in service and "tty" not in service and "runtime" not in service


def test_a_compose_file_with_the_runtime_of_the_vendor() -> None:
    needs = Needs(runtime="ascend", variables={"ASCEND_VISIBLE_DEVICES": "1", "HERE": None})
    document = yaml.safe_load(FORMS["compose"](launch(needs, stdin=True, terminal=True)))
    jsonschema.validate(document, published_schema("compose-spec"))
    assert document == {
        "services": {
            "verl-v1.0.0-x": {
                "image": "some/image:1",
                "init": True,
                "stdin_open": True,
                "tty": True,
                "runtime": "ascend",
                "environment": {"ASCEND_VISIBLE_DEVICES": "1", "HERE": None},
            }
        }
    }


@pytest.mark.parametrize("version", ["1.25", "1.31", "1.34"])
def test_a_pod(matrix: Matrix, version: str) -> None:
    what = everything(matrix, "k8s")
    document = yaml.safe_load(FORMS["k8s"](what))
    kubernetes_validate.validate(document, version, strict=True)
    assert document["metadata"] == {"name": "my-run"}
    spec = document["spec"]
    assert spec["hostNetwork"] is True and spec["dnsPolicy"] == "ClusterFirstWithHostNet"
    assert spec["nodeSelector"] == {"kubernetes.io/arch": "arm64"}
    (container,) = spec["containers"]
    assert container["resources"] == {"limits": {"huawei.com/Ascend910": 2}}
    assert tuple(map(plain, container["args"])) == COMMAND and "command" not in container
    assert {item["name"]: plain(item["value"]) for item in container["env"]} == what.needs.variables
    assert "ASCEND_RT_VISIBLE_DEVICES" not in what.needs.variables, "the device plugin sets the devices"
    assert spec["volumes"] == [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}},
        {"name": "volume-0", "hostPath": {"path": "/data sets"}},
        {"name": "volume-1", "persistentVolumeClaim": {"claimName": "cache"}},
    ]
    assert container["volumeMounts"] == [
        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108
        {"name": "volume-0", "mountPath": "/data", "readOnly": True},
        {"name": "volume-1", "mountPath": "/root/.cache"},
    ]
    assert "securityContext" not in container


def test_a_pod_of_the_whole_machine_has_a_shell(matrix: Matrix) -> None:
    needs = needs_in_cluster(environment(matrix, A3_SGLANG), ContainerOptions())
    document = yaml.safe_load(FORMS["k8s"](launch(needs, stdin=True, terminal=True)))
    kubernetes_validate.validate(document, "1.31", strict=True)
    container = document["spec"]["containers"][0]
    assert container["resources"]["limits"] == {"huawei.com/Ascend910": 16}
    assert container["tty"] and container["stdin"] and "args" not in container
    assert "hostNetwork" not in document["spec"]
    with pytest.raises(UsageError, match="not 'mine'"):
        FORMS["k8s"](launch(replace(needs, network="mine")))


def test_the_schemas_refuse_unknown_keys(matrix: Matrix) -> None:
    document = yaml.safe_load(FORMS["compose"](everything(matrix, "compose")))
    document["services"]["verl-v1.0.0-x"]["priviliged"] = True
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, published_schema("compose-spec"))
    pod = yaml.safe_load(FORMS["k8s"](everything(matrix, "k8s")))
    pod["spec"]["containers"][0]["arguments"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(pod, "1.31", strict=True)


# --- the command -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", list(FORMS))
def test_printing_for_hardware_of_another_host(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs neither an engine nor the image."""
    monkeypatch.chdir(tmp_path)
    result = succeeded(
        run("run", A3_SGLANG, "--print", form, "--devices", "0,1", "--", "ls", "-l", DOCKER_HOST="unix:///nowhere")
    )
    # an editor looks for a file
    printed = (tmp_path / result.stdout.strip()).read_text() if form == "devcontainer" else result.stdout
    notes = result.stderr if form in {"docker", "devcontainer"} else printed
    assert "this host was not checked" in notes
    assert "envbuilder/verl:v0.6.0-cann8.3.rc1-torch_npu2.6.0.post3-a3-ubuntu22.04-py3.11-sglang-aarch64" in printed
    if form == "docker":
        assert result.stdout.startswith("docker run \\\n  --rm \\\n") and result.stdout.endswith(" \\\n  ls -l\n")
    else:
        assert yaml.safe_load(printed.partition("\n")[2])


def test_options_describe_an_upstream_image() -> None:
    arguments = ("run", "quay.io/ascend/verl:some-tag", "--print", "docker", "--hw", "a3", "--engine", "sglang")
    result = succeeded(run(*arguments, DOCKER_HOST="unix:///nowhere"))
    assert "--env RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES=1" in result.stdout
    assert result.stdout.endswith("  quay.io/ascend/verl:some-tag\n")
    assert "--interactive" in result.stdout and "--tty" in result.stdout, "without a command it is a shell"


def test_options_of_the_user_win(tmp_path: Path) -> None:
    result = run(
        "run", A3_SGLANG, "--print", "docker", "--devices", "3", "--shm-size", "64g", "--network", "none", "--keep", "--detach",
        "--env", "HCCL_CONNECT_TIMEOUT=9", "--env", "WORD", "--volume", f"{tmp_path}:/data:ro", "--name", "me", WORD="secret",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    lines = [line.strip(" \\") for line in result.stdout.splitlines()]
    wanted = {
        "--detach",
        "--name me",
        "--network none",
        "--shm-size 64g",
        f"--volume {tmp_path}:/data:ro",
        "--env WORD",
    }
    assert wanted | {"--env HCCL_CONNECT_TIMEOUT=9", "--device /dev/davinci3"} <= set(lines)
    assert "--rm" not in lines and "secret" not in result.stdout
    assert len([line for line in lines if "HCCL_CONNECT_TIMEOUT" in line]) == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([A3_SGLANG, "--print", "docker", "--devices", "0-2"], 5, "--devices 0,1,2,3"),
        ([A3_SGLANG, "--print", "docker", "--npus", "3"], 5, "--npus 4"),
        ([A3_SGLANG, "--print", "docker", "--npus", "32"], 5, "Atlas A3 has 16 NPUs, and not 32"),
        ([A3_SGLANG, "--print", "docker", "--npus", "2", "--devices", "0,1"], 2, "give one of them"),
        ([A3_SGLANG, "--print", "docker", "--devices", "16"], 5, "Atlas A3 has no NPU 16"),
        ([A3_SGLANG, "--print", "docker", "--devices", "two"], 2, "not 'two'"),
        ([A3_SGLANG, "--print", "docker", "--volume", "data"], 2, "--volume takes SRC:DST"),
        ([A3_SGLANG, "--print", "docker", "--shm-size", "big"], 2, "not 'big'"),
        ([A3_SGLANG, "--print", "docker", "--env", "1X=1"], 2, "--env takes NAME=VALUE"),
        ([A3_SGLANG, "--print", "k8s", "--env", "HOME"], 2, "a pod cannot take the value of HOME from this shell"),
        ([CPU, "--print", "docker", "--npus", "1"], 2, "CPU environment has no NPUs"),
    ],
)
def test_errors_name_the_problem_or_a_remedy(arguments: list[str], code: int, words: str) -> None:
    result = run("run", *arguments)
    assert result.returncode == code, result.stderr
    assert words in result.stderr and result.stdout == ""
