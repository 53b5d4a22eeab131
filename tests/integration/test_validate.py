"""Validation of real images: a correct one passes, and every fault has its own message."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest

from envbuilder.docker.engine import Docker
from envbuilder.environment import Environment
from envbuilder.environment.image_names import candidate_name
from envbuilder.environment.locks import HASHED
from envbuilder.errors import EnvbuilderError
from envbuilder.lock.index import uv_program
from envbuilder.matrix import load
from envbuilder.matrix.model import CPU
from envbuilder.validate.account import ImageAccountant
from envbuilder.validate.expected import Expected, expected, plan_of
from envbuilder.validate.imports import import_modules
from envbuilder.validate.target import container_of
from tests.conftest import environment, succeeded
from tests.helpers.sabotage import SILENT, state
from tests.integration.conftest import (
    BASE,
    Demo,
    Toy,
    build,
    command,
    docker,
    labels,
    lock_of,
    make_image,
    make_toy,
    run,
)


def has(image: str) -> bool:
    return bool(docker("images", "-q", image).strip())


# --- the gate --------------------------------------------------------------------------------------------


def test_an_image_gets_its_name_when_it_was_proven(toy: Toy, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    result = succeeded(run("build", *toy.arguments, "--registry", "gate", "--report", str(report)))
    name = toy.image("gate")
    proof = json.loads(report.read_text())["builds"][0]["validation"]
    assert proof["passed"] and proof["proven"] == "import"
    assert labels(name)["envbuilder.validation"] == proof["digest"]
    assert labels(name)["envbuilder.proven"] == "import"
    assert not has(candidate_name(name))
    assert "Toy has no smoke run" in result.stdout
    # a second build proves nothing and changes nothing
    before = docker("images", "-q", name)
    result = run("build", *toy.arguments, "--registry", "gate")
    assert result.returncode == 0 and "proven before, level import" in result.stderr
    assert docker("images", "-q", name) == before and not has(candidate_name(name))
    # a container of the candidate that runs keeps its name, and that is all
    build(*toy.arguments, "--registry", "looked-at")
    docker("tag", toy.image("looked-at"), candidate_name(toy.image("gate")))
    held = docker("run", "--detach", candidate_name(toy.image("gate")), "sleep", "600").strip()
    docker("image", "rm", toy.image("looked-at"))
    try:
        assert run("build", *toy.arguments, "--registry", "gate").returncode == 0
    finally:
        docker("rm", "--force", held)


def test_an_image_that_fails_gets_no_name(tmp_path: Path, engine: None) -> None:
    broken = (
        "from setuptools import setup\nopen('reel/__init__.py', 'w').write('import nothing_of_the_kind')\nsetup()\n"
    )
    toy = make_toy(tmp_path, setup=broken)
    result = run("build", *toy.arguments, "--registry", "broken")
    assert result.returncode == 6, result.stderr
    assert "import: import reel: ModuleNotFoundError: No module named 'nothing_of_the_kind'" in result.stderr
    assert "hint: full report: " in result.stderr
    assert not has(toy.image("broken"))
    assert has(candidate_name(toy.image("broken"))), "it stays to be looked at"


# --- every way to be wrong, at the level static ----------------------------------------------------------


def test_an_image_without_labels_is_refused(engine: None) -> None:
    result = run("validate", BASE)
    assert result.returncode == 6
    assert "has no label envbuilder.environment, so its environment is unknown" in result.stderr
    assert run("validate", "nothing/of:the-kind").returncode == 4


SITE, SOURCE = "/usr/local/lib/python3.11/dist-packages", "/opt/envbuilder/src/verl/verl"
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\\n" + "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ" * 2
FAULTS = (
    f"rm -r {SITE}/tensordict {SITE}/tensordict-* && cp -r /tmp/faults/site/. {SITE}",
    "pip install --no-index --no-deps --no-build-isolation --break-system-packages /tmp/faults/triton-project",
    "rm -r /tmp/faults",
    f"rm {SITE}/safetensors/_safetensors_rust.abi3.so",
    f"echo '# changed' >> {SITE}/torch/functional.py",
    f"echo '# changed' >> {SOURCE}/protocol.py && touch {SOURCE}/another.py && rm {SOURCE}/base_config.py",
    f"mkdir -p /root/.ssh && printf -- '{KEY}\\n' > /root/.ssh/id_ed25519",
    f"echo 'token = hf_{'a1' * 17}' > /root/notes.txt",
    "cp /bin/bash /usr/local/bin/helper && chmod u+s /usr/local/bin/helper",
    f"chmod o+w {SITE}/numpy && chown 1000 {SITE}/torch/hub.py",
    f"mkdir {SITE}/extra-1.0.dist-info && cd {SITE}/extra-1.0.dist-info && touch RECORD",
    "printf 'Metadata-Version: 2.1\\nName: extra\\nVersion: 1.0\\n' > METADATA",
    "printf 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n' > WHEEL",
    "mkdir -p /root/.cache/pip && touch /root/.cache/pip/x && echo machine > /root/.netrc",
    # what runs by itself
    f"echo 'import os' > {SITE}/zz.pth && touch {SITE}/sitecustomize.py {SITE}/usercustomize.py {SITE}/module.py",
    "echo '* * * * * root id' > /etc/cron.d/x && echo id > /etc/profile.d/x.sh && echo id >> /root/.bashrc",
    "echo /x >> /etc/ld.so.conf && echo /x > /etc/ld.so.conf.d/x.conf",
    "echo 'toor::0:0::/root:/bin/bash' >> /etc/passwd",
    "echo '-----BEGIN OPENSSH PRIVATE KEY-----' > /root/.ssh/header",
    "echo '# changed' >> /usr/lib/python3.11/os.py && echo '# changed' >> /opt/envbuilder/locks/pins.txt",
)
UNACCOUNTED = {
    "/etc/cron.d/x", "/etc/ld.so.conf", "/etc/ld.so.conf.d/x.conf", "/etc/passwd", "/etc/profile.d/x.sh",
    "/opt/envbuilder/locks/pins.txt", "/root/.bashrc", "/root/.cache/pip/x", "/root/.netrc", "/root/.ssh/header",
    "/root/.ssh/id_ed25519", "/root/notes.txt", "/usr/lib/python3.11/os.py", "/usr/local/bin/helper",
    f"{SITE}/module.py", f"{SITE}/sitecustomize.py", f"{SITE}/torch/functional.py", f"{SITE}/usercustomize.py",
    f"{SITE}/zz.pth",
}  # fmt: skip
# another program starts with the image, and ends at once
SETTINGS = """
ENV https_proxy=http://user:secret@proxy.example:3128
ENV RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES=other
LABEL envbuilder.lock=sha256:0
ENTRYPOINT ["/bin/false"]
"""


@pytest.fixture(scope="module")
def document(demo: Demo, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the report of an image with every fault: each is to be found beside the others."""
    folder, name = tmp_path_factory.mktemp("faults"), "changed/image:1"
    install = [uv_program(), "pip", "install", "--no-deps", "--target", str(folder / "site"), "tensordict==0.9.1"]
    subprocess.run([*install, "--python-version", "3.11"], check=True, capture_output=True)
    project = folder / "triton-project"
    (project / "triton").mkdir(parents=True)
    (project / "triton" / "__init__.py").write_text("__version__ = '3.5.0'\n")
    (project / "setup.py").write_text(
        "from setuptools import setup\nsetup(name='triton', version='3.5.0', packages=['triton'])\n"
    )
    text = f"FROM {demo.image}\nCOPY . /tmp/faults\nRUN {' && '.join(FAULTS)}\n{SETTINGS}"
    arguments = ["docker", "build", "-q", "-t", name, "-f", "-", str(folder)]
    subprocess.run(arguments, input=text, text=True, check=True, capture_output=True)
    try:
        result = run("validate", name, "--level", "static", "--json")
    finally:
        docker("image", "rm", name)
    assert result.returncode == 6, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    assert not document["passed"] and document["proven"] is None
    return document


@pytest.fixture(scope="module")
def found(document: dict[str, Any]) -> dict[str, str]:
    """Return the failed checks of this image."""
    return {check["name"]: check["message"] for check in document["checks"] if check["status"] == "failed"}


def test_a_changed_pin_is_found(found: dict[str, str]) -> None:
    assert "tensordict is 0.9.1, the row pins 0.10.0" in found["pin tensordict"]
    assert "1 of" in found["lock"] and "tensordict 0.9.1, locked 0.10.0" in found["lock"]


def test_triton_over_triton_ascend_is_found(found: dict[str, str]) -> None:
    """A resolver that does not know that both share a folder installs both."""
    assert "triton 3.5.0 is installed, although this environment must not have it" in found["removed triton"]
    assert "triton-ascend is shadowed" in found["not shadowed triton-ascend"]


def test_changed_and_added_files_are_found(found: dict[str, str]) -> None:
    """Each change makes an image useless or dangerous, and no other check finds it."""
    assert "torch: torch/functional.py is changed" in found["files"]
    assert "safetensors: safetensors/_safetensors_rust.abi3.so is missing" in found["files"]
    for what in ("protocol.py is changed", "base_config.py is missing", "another.py is added"):
        assert f"verl/{what}" in found["source verl"]
    assert found["beyond the lock"] == "packages that are not in the lock are installed: extra, triton"
    for kind, path in {
        "key": "/root/.ssh/id_ed25519", "token": "/root/notes.txt", "privileged": "/usr/local/bin/helper",
        "writable": f"{SITE}/numpy", "owner": f"{SITE}/torch/hub.py",
    }.items():  # fmt: skip
        assert found[f"no suspect file {kind}"].startswith(f"1 files are not fit for an image: {path} "), kind


def test_files_that_must_not_be_in_an_image_are_found(found: dict[str, str]) -> None:
    assert found["no cache /root/.cache/pip"].endswith("such as /root/.cache/pip/x")
    assert found["no credentials /root/.netrc"] == "/root/.netrc was left in the image"
    assert found["no secret variables"] == "the image sets https_proxy"
    assert "variable RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES" in found
    assert "secret" not in "".join(found.values()).replace("no secret", "")


def test_files_that_belong_to_nothing_are_found(document: dict[str, Any], found: dict[str, str]) -> None:
    account = document["account"]
    assert account["unaccounted"].keys() >= UNACCOUNTED
    assert found["account"].startswith(f"{account['lost']} of {account['files']} files are unaccounted for: ")
    runs = {
        name for kind, names in account["runs"].items() for name, origin in names.items() if origin == "unaccounted"
    }
    assert {
        f"{SITE}/zz.pth",
        "/etc/cron.d/x",
        "/etc/profile.d/x.sh",
        "/usr/local/bin/helper",
        "/root/.ssh/header",
    } <= runs
    assert "toor: 0, /bin/bash" in runs


def test_every_file_of_an_unchanged_image_is_accounted_for(demo: Demo) -> None:
    account = json.loads(succeeded(run("validate", demo.image, "--level", "static", "--json")).stdout)["account"]
    assert account["lost"] == 0 and account["unaccounted"] == {}
    assert sum(account["kinds"].values()) == account["files"] > 10_000
    assert account["base"]["layers"] == 1


def test_another_lock_is_found(found: dict[str, str]) -> None:
    assert "it was built from other definitions" in found["label envbuilder.lock"]


def test_nothing_else_is_found(found: dict[str, str]) -> None:
    assert len(found) == 19, sorted(found)


def test_a_rollout_that_cannot_be_imported_is_found(demo: Demo, tmp_path: Path) -> None:
    """The engine lacks a function that the framework imports, as in one documented row."""
    with container_of(Docker(), demo.image, demo.row, CPU, 1) as target:
        site = "/usr/local/lib/python3.11/dist-packages/sglang"
        lose = f"sed -i 's/^def get_ip(/def get_another(/' {site}/srt/utils.py"
        docker("exec", target.id, "bash", "-c", lose)
        rollout = "verl.workers.rollout.sglang_rollout.sglang_rollout"
        wanted = state(demo.row, labels(demo.image), CPU, target)
        assert rollout in wanted.used
        wanted = replace(wanted, modules=("torch",), used=(rollout,))
        checks = import_modules(target, wanted, CPU, tmp_path / "log", SILENT)
    assert {check.name: check.status for check in checks} == {"import torch": "passed", f"import {rollout}": "failed"}
    assert "cannot import name 'get_ip'" in checks[-1].message


# --- the account of files ---------------------------------------------------------------------------------


def test_packages_of_the_system_are_accounted_for(
    tmp_path: Path, engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the row names is, with what that needs; what a layer above installs is not."""
    toy = make_toy(tmp_path, system_packages="clang, openssh-client")
    name, other = toy.image("counted"), "changed/toy:1"
    succeeded(build(*toy.arguments, "--registry", "counted"))
    row = environment(load(toy.matrices), toy.id)
    accounted = ImageAccountant(Docker(), name, row)(wanted_of(row, name), tmp_path / "log")
    assert accounted.account is not None and accounted.account.unaccounted == {}
    assert accounted.account.kinds["system package"] > 100
    # an engine that does not know the layers by themselves gets their content
    load_unnamed = Docker.load_unnamed
    answers = iter([EnvbuilderError("it has no layers")])

    def load_once(docker: Docker, archive: IO[bytes]) -> str:
        if refusal := next(answers, None):
            raise refusal
        return load_unnamed(docker, archive)

    monkeypatch.setattr(Docker, "load_unnamed", load_once)
    again = ImageAccountant(Docker(), name, row)(wanted_of(row, name), tmp_path / "log").account
    assert again == accounted.account
    make_image(name, "RUN apt-get update && apt-get install --yes hello && rm -r /var/lib/apt/lists/*", other)
    try:
        found = ImageAccountant(Docker(), other, row)(wanted_of(row, other), tmp_path / "log").account
    finally:
        docker("image", "rm", other)
    assert found is not None and "/usr/bin/hello" in found.unaccounted


def test_a_pulled_image_is_accounted_for(toy: Toy, published: str, tmp_path: Path) -> None:
    """Its base image is its lowest layers, which were published again and have no name on this engine."""
    row, name = environment(load(toy.matrices), toy.id), toy.image(published)
    docker("pull", "-q", name)
    try:
        found = ImageAccountant(Docker(), name, row)(wanted_of(row, name), tmp_path / "log").account
    finally:
        docker("image", "rm", name)
    assert found is not None and found.unaccounted == {} and found.kinds["base image"] > 1000


def test_an_image_of_another_build_has_no_account(engine: None, toy: Toy, tmp_path: Path) -> None:
    row = environment(load(toy.matrices), toy.id)
    found = ImageAccountant(Docker(), BASE, row)(wanted_of(row, BASE), tmp_path / "log")
    assert found.account is None
    assert found.problem == "its history does not say where the layers of its base image end"


def wanted_of(row: Environment, image: str) -> Expected:
    named = labels(image) or {}
    return expected(row, plan_of(row, named), named, CPU, {}, is_image=True)


# --- training -------------------------------------------------------------------------------------------


@pytest.mark.extended
def test_a_trainer_that_is_killed_fails(demo: Demo, tmp_path: Path) -> None:
    """It is killed at the fifth step, with its processes."""
    state = tmp_path / "state"
    process = subprocess.Popen(
        command("validate", demo.image, "--depth", "trainer", "--json"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, env={**os.environ, "XDG_STATE_HOME": str(state)},
    )  # fmt: skip
    timer = threading.Timer(600, process.kill)
    timer.start()
    while process.poll() is None and not any("step:5 - " in log.read_text() for log in state.rglob("*-train.log")):
        time.sleep(0.2)
    for line in docker("top", _containers(demo.image)[0], "-eo", "pid,args").splitlines()[1:]:
        pid, _, arguments = line.strip().partition(" ")
        if "train.py" in arguments:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    output, _ = process.communicate()
    timer.cancel()
    assert process.returncode == 6
    failed = {item["name"]: item["message"] for item in json.loads(output)["checks"] if item["status"] == "failed"}
    assert failed["process"].startswith("the trainer was killed by signal 9")
    assert "of 24 steps were logged; missing: " in failed["steps"]
    assert _containers(demo.image) == []


def test_an_interrupted_validation_leaves_no_container(demo: Demo) -> None:
    process = subprocess.Popen(
        command("validate", demo.image, "--level", "import"), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stderr is not None
    with process.stderr:
        assert any("static checks ..." in line for line in process.stderr)
        assert _containers(demo.image) != []
        process.send_signal(signal.SIGINT)
        assert process.wait(300) == 130
    assert _containers(demo.image) == []


def _containers(image: str) -> list[str]:
    return docker("ps", "-aq", "--filter", f"ancestor={image}").split()


def test_an_environment_of_this_host_is_validated(toy: Toy, tmp_path: Path) -> None:
    """Validate an environment that was installed by hand, complete and then without one pin."""
    venv = tmp_path / "venv"
    uv = uv_program()
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(venv)], check=True)
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("".join(map(lock_of(load(toy.matrices), toy.id).part, HASHED)))
    install = [uv, "pip", "install", "--quiet", "--python", str(venv / "bin" / "python")]
    subprocess.run([*install, "--require-hashes", "--requirement", str(requirements)], check=True)
    works = [str(toy.mirror / f"{name}-work") for name in ("toy", "reel")]
    subprocess.run([*install, "--no-deps", "--no-build-isolation", *works], check=True)
    path = f"{venv / 'bin'}:{os.environ['PATH']}"
    variables = {"PATH": path, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    arguments = ("validate", toy.id, "--local", "--json", "--matrices", str(toy.matrices))
    result = run(*arguments, **variables)
    document = json.loads(result.stdout)
    assert result.returncode == 0, [check for check in document["checks"] if check["status"] == "failed"]
    assert document["image"] is None and document["proven"] == "import"
    subprocess.run([uv, "pip", "uninstall", "--quiet", "--python", str(venv / "bin" / "python"), "tqdm"], check=True)
    result = run(*arguments, **variables)
    assert result.returncode == 6
    assert "static: pin tqdm: tqdm is not installed; the row pins 4.67.1" in result.stderr
    assert "import: import tqdm: ModuleNotFoundError" in result.stderr
