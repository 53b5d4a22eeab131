"""A real cluster of Ray in two containers, from the printed compose file, and a training on both."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from envbuilder.matrix import Matrix
from envbuilder.matrix.model import SmokeRun
from envbuilder.quickstart.choose import TrainingOptions, training_of
from envbuilder.quickstart.steps import training_words
from envbuilder.trainlog import read_steps
from envbuilder.validate.smoke.job import Job, Place, smoke_job
from envbuilder.validate.smoke.judge import curves_of, judge
from tests.conftest import Result, succeeded
from tests.helpers.waiting import wait_until
from tests.integration.conftest import DEMO, Demo, command, docker, run

INSIDE = Path(__file__).parents[2] / "envbuilder" / "validate" / "smoke" / "inside"
PREFIX = f"envbuilder-quickstart-{uuid.uuid4().hex[:8]}"
NUMBERED = "RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES"
SMALL = (
    "--npus", "1", "--nodes", "2",
    "--set", "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
    "--set", "actor_rollout_ref.actor.ulysses_sequence_parallel_size=1",
)  # fmt: skip


def printed(*arguments: str) -> str:
    result = succeeded(run("quickstart", DEMO, "--recipe", "grpo", *SMALL, *arguments))
    return result.stdout


@dataclass(frozen=True)
class Cluster:
    """The services of a compose file, started one by one, because the engine may have no compose."""

    services: Mapping[str, Mapping[str, Any]]

    def start(self, name: str) -> None:
        service = self.services[name]
        words = ["run", "--detach", "--init", "--name", f"{PREFIX}-{name}", "--network", PREFIX]
        words += ["--hostname", service["hostname"], "--network-alias", name, "--shm-size", service["shm_size"]]
        words += [word for item in service["environment"].items() for word in ("--env", "=".join(item))]
        for item in service["volumes"]:
            words += ["--volume", f"{PREFIX}-{item['source']}:{item['target']}"]
        *shell, script = (word.replace("$$", "$") for word in service["command"])
        # the row sets it, and verl then expects Ray to number the devices of an NPU
        assert f"export {NUMBERED}=1\n" in script
        docker(*words, service["image"], *shell, script.replace(f"export {NUMBERED}=1\n", f"unset {NUMBERED}\n"))

    def exec(self, name: str, *words: str, variables: tuple[str, ...] = ()) -> Result:
        settings = [word for variable in variables for word in ("--env", variable)]
        command = ["docker", "exec", *settings, f"{PREFIX}-{name}", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def log(self, name: str) -> str:
        command = ["docker", "logs", f"{PREFIX}-{name}"]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout

    def wait_healthy(self) -> None:
        """Wait until the health check of the file passes, as compose does."""
        kind, *words = self.services["head"]["healthcheck"]["test"]
        assert kind == "CMD"
        wait_until(lambda: self.exec("head", *words).returncode == 0, lambda: self.log("head"), 300)


@pytest.fixture(scope="module")
def cluster(demo: Demo) -> Iterator[Cluster]:
    document = yaml.safe_load(printed("--format", "compose"))
    found = Cluster(document["services"])
    docker("network", "create", PREFIX)
    try:
        found.start("head")
        found.wait_healthy()
        found.start("worker-1")
        yield found
    finally:
        names = [f"{PREFIX}-{name}" for name in found.services]
        subprocess.run(["docker", "rm", "--force", *names], capture_output=True, check=False)
        docker("network", "rm", PREFIX)
        docker("volume", "rm", *(f"{PREFIX}-{name}" for name in document["volumes"]))


def preflight(cluster: Cluster, *, nodes: int = 2, variables: tuple[str, ...] = ()) -> Result:
    (text,) = [
        step["command"] for step in json.loads(printed("--json"))["steps"] if "END_OF_PROGRAM" in step["command"]
    ]
    return cluster.exec("head", "bash", "-c", text.replace('"nodes": 2', f'"nodes": {nodes}'), variables=variables)


def wait_for(cluster: Cluster, words: str) -> None:
    wait_until(lambda: words in cluster.log("head"), lambda: cluster.log("head") + cluster.log("worker-1"), 300)


@pytest.mark.extended
def test_both_nodes_are_seen_and_each_does_a_task(cluster: Cluster) -> None:
    """The head waits until the worker has joined, and checks both."""
    wait_for(cluster, "preflight: 2 nodes are alike")
    code = (
        "import ray; ray.init(address='auto', log_to_driver=False)\n"
        "class Node:\n    def name(self): return __import__('socket').gethostname()\n"
        # each keeps the only NPU of its node
        "nodes = [ray.remote(num_cpus=0, resources={'NPU': 1})(Node).remote() for _ in range(2)]\n"
        "print('on', *sorted(ray.get([node.name.remote() for node in nodes])))"
    )
    result = cluster.exec("head", "python3", "-c", code)
    assert "on head worker-1" in result.stdout, result.stderr[-2000:]


@pytest.mark.extended
def test_a_training_of_two_ranks_on_two_nodes(cluster: Cluster, demo: Demo, matrix: Matrix, tmp_path: Path) -> None:
    wait_for(cluster, "preflight: 2 nodes are alike")
    place = Place("/tmp/smoke/inside", "/tmp/smoke/run")  # noqa: S108
    # each rank draws its own samples, and what both draw differs between runs: more steps, so that every run learns
    recipe = SmokeRun(**{**matrix.smoke_runs["verl"].__dict__, "steps": 40})
    smoke = smoke_job(demo.row, "cpu", place, depth="trainer", recipe=recipe)
    assert isinstance(smoke, Job)
    job = smoke.document()
    samples = recipe.prompts_per_step * recipe.samples_per_prompt // 2
    job["address"] = "auto"
    job["variables"]["GLOO_SOCKET_IFNAME"] = "eth0"
    job["arguments"] += ["trainer.nnodes=2", f"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu={samples}"]
    shutil.copytree(INSIDE, tmp_path / "smoke" / "inside")
    (tmp_path / "smoke" / "job.json").write_text(json.dumps(job))
    assets = (
        f"import sys; sys.path.insert(0, '{place.code}'); from pathlib import Path; from assets import make_assets; "
        f"make_assets(Path('{place.folder}'), **{job['assets']!r})"
    )
    early = (f"PYTHONPATH={place.code}/cpu",)
    for name in cluster.services:
        docker("cp", str(tmp_path / "smoke"), f"{PREFIX}-{name}:/tmp/")
        succeeded(cluster.exec(name, "python3", "-c", assets, variables=early))
    train = f"cd /tmp && exec python3 {place.code}/train.py /tmp/smoke/job.json 2>&1"
    variables = tuple(f"{name}={value}" for name, value in job["variables"].items())
    result = cluster.exec("head", "bash", "-c", train, variables=variables)
    assert result.returncode == 0, result.stdout[-4000:]
    failed = [verdict for verdict in judge(curves_of(read_steps(result.stdout), recipe), recipe) if not verdict.passed]
    assert failed == [], result.stdout[-2000:]
    address = cluster.exec("worker-1", "hostname", "-i").stdout.strip()
    # Ray names the node of a line from another one
    ranks = {line for line in result.stdout.splitlines() if "WorkerDict" in line}
    assert any(f"ip={address}" in line for line in ranks) and any("ip=" not in line for line in ranks)


@pytest.mark.extended
def test_the_script_of_a_job_checks_the_nodes_first(cluster: Cluster, tmp_path: Path) -> None:
    """The script is started as KubeRay starts it; this machine has no NPUs for the training."""
    wait_for(cluster, "preflight: 2 nodes are alike")
    script, job = yaml.safe_load_all(printed("--format", "k8s"))
    (text,) = script["data"].values()
    (tmp_path / "train.sh").write_text(text.replace("python3 -m verl.trainer.main_ppo", "echo trained"))
    shell, place = job["spec"]["entrypoint"].split()
    assert cluster.exec("head", "mkdir", "-p", str(Path(place).parent)).returncode == 0
    docker("cp", str(tmp_path / "train.sh"), f"{PREFIX}-head:{place}")
    result = cluster.exec("head", "ray", "job", "submit", "--", shell, place)
    assert result.returncode == 0, result.stdout + result.stderr
    output = result.stdout
    assert 0 < output.index("preflight: 2 nodes are alike") < output.index("trained algorithm.adv_estimator=grpo")


@pytest.mark.extended
def test_nodes_that_differ_are_refused(cluster: Cluster) -> None:
    wait_for(cluster, "preflight: 2 nodes are alike")
    good = preflight(cluster)
    assert good.returncode == 0 and "2 nodes are alike" in good.stdout, good.stderr[-2000:]
    assert cluster.exec("worker-1", "bash", "-c", "echo >> /opt/envbuilder/sbom.cdx.json").returncode == 0
    found = preflight(cluster)
    assert found.returncode == 1 and "preflight: the nodes differ in the bill of materials: " in found.stderr
    address = cluster.exec("worker-1", "hostname", "-i").stdout.strip()
    assert f"{address} has " in found.stderr


@pytest.mark.extended
def test_a_missing_node_is_reported(cluster: Cluster) -> None:
    wait_for(cluster, "preflight: 2 nodes are alike")
    found = preflight(cluster, nodes=3, variables=("PREFLIGHT_SECONDS=1",))
    assert found.returncode == 1 and "preflight: 2 of 3 nodes have 1 NPUs for Ray" in found.stderr


@pytest.mark.parametrize("recipe", ["grpo", pytest.param("sft", marks=pytest.mark.extended)])
def test_the_trainer_of_the_image_knows_every_option(demo: Demo, recipe: str) -> None:
    """Hydra refuses unknown options before anything else happens."""
    training = training_of(demo.row, recipe, TrainingOptions())
    program, options = training_words(training)
    # what the framework needs on a CPU to be imported at all
    patches = ("--volume", f"{INSIDE}/cpu:/patches:ro", "--env", "PYTHONPATH=/patches")
    words = ("run", "--rm", "--network", "none", *patches, demo.image, "python3", "-m", program[-1], "--cfg", "job")
    config = yaml.safe_load(docker(*words, *(word for part in options for word in part)))
    assert str(config["data"]["train_batch_size"]) == training.settings["data.train_batch_size"]
    if recipe == "sft":
        # one recipe is enough to show that unknown options are refused
        with pytest.raises(AssertionError):
            docker(*words, "data.train_batch_sise=1")


RECIPE = """
framework: verl
recipe: hello
title: a greeting
source: example/hello
model: m
data: $HOME
output: o
npus: 2
program: [printf, '%s|']
style: assignment
settings: {word: "it's ${data}", count: '${npus}'}
variables: {GREETING: 'a b'}
"""


def test_a_recipe_is_run_in_the_image(demo: Demo, tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "verl-hello.yaml").write_text(RECIPE)
    work = tmp_path / "work"
    arguments = ("quickstart", DEMO, "--recipe", "hello", "--run", "--matrices", str(tmp_path), "--work", str(work))
    result = run(*arguments, "--npus", "1", "--env", "HOME=/elsewhere")
    assert (result.returncode, result.stdout) == (0, r"word='it\'s /elsewhere'|count=1|"), result.stderr
    assert "CPU environment has no NPUs" in result.stderr
    missing = run(*arguments, "--registry", "absent")
    assert missing.returncode == 4 and f"envbuilder build {DEMO}" in missing.stderr
    shown = run(*arguments[:4], "--matrices", str(tmp_path)).stdout
    assert "export GREETING='a b'" in shown and shlex.split(shown.splitlines()[-2]) == ["count=2"]
    # what the training writes into its home folder stays on the host
    keeps = RECIPE.replace("recipe: hello", "recipe: keep").replace("[printf, '%s|']", "[bash, -c, 'date > ~/kept']")
    (tmp_path / "recipes" / "verl-keep.yaml").write_text(keeps)
    assert run(*arguments[:3], "keep", *arguments[4:], "--npus", "1").returncode == 0
    assert (work / "kept").read_text()


@pytest.mark.extended
def test_a_worker_joins_the_head_that_was_started_on_another_host(demo: Demo, tmp_path: Path) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "verl-hello.yaml").write_text(RECIPE)
    words = command(
        "quickstart", DEMO, "--recipe", "hello", "--matrices", str(tmp_path), "--npus", "1", "--nodes", "2",
        "--work", str(tmp_path / "work"),
    )  # fmt: skip
    others, ours = set(running()), []
    head = subprocess.Popen([*words, "--run"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        ours.append(newest(others))
        address = docker("inspect", "--format", "{{.NetworkSettings.IPAddress}}", ours[0]).strip()
        worker = subprocess.Popen([*words, "--run", "--worker", "--head", address], stderr=subprocess.DEVNULL)
        ours.append(newest({*others, *ours}))
        output, errors = head.communicate(timeout=900)
        assert head.returncode == 0, errors
        assert "preflight: 2 nodes are alike" in output and output.endswith("|count=1|")
    finally:
        subprocess.run(["docker", "rm", "--force", *ours], capture_output=True, check=False)
    worker.wait(timeout=300)


def running() -> list[str]:
    return docker("ps", "--quiet").split()


def newest(others: set[str]) -> str:
    """Wait for another container and return it."""
    wait_until(lambda: bool(set(running()) - others), lambda: "no container was started", 300)
    return (set(running()) - others).pop()
