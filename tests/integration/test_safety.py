"""Builds that are interrupted, killed, repeated, or run beside each other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.conftest import succeeded
from tests.helpers.servers import registry
from tests.helpers.waiting import wait_until
from tests.integration.conftest import Toy, build, command, docker, inside, make_toy, run

SLEEPER = "import subprocess\nfrom setuptools import setup\nsubprocess.run(['sleep', '{seconds}'])\nsetup()\n"
# all installed files with their hashes, except uv's record of the time
INSTALLED = (
    "cd /usr/local/lib/python3.11/dist-packages && grep -v uv_cache.json *.dist-info/RECORD && uv pip freeze --system"
)


def start(*arguments: str, temporary: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("build", *arguments, "--no-validate"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
        # tests in the background ignore these signals, and children inherit that
        preexec_fn=lambda: [signal.signal(item, signal.SIG_DFL) for item in (signal.SIGINT, signal.SIGHUP)],
    )


def is_whole(image: str) -> bool:
    return inside(image, "python3 -c 'import toy, reel, tqdm' && echo whole") == "whole\n"


def has(image: str) -> bool:
    return bool(docker("images", "-q", image).strip())


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_an_interrupted_build_leaves_nothing(tmp_path: Path, engine: None, sent: signal.Signals, code: int) -> None:
    seconds = 90000 + os.getpid() % 1000 + sent
    toy = make_toy(tmp_path, setup=SLEEPER.format(seconds=seconds))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    process = start(*toy.arguments, "--registry", "interrupted", temporary=temporary)
    assert process.stderr is not None
    with process.stderr:
        wait_until(lambda: _sleeps(seconds), lambda: "the build never reached its step", 300)
        process.send_signal(sent)
        try:
            assert process.wait(120) == code
        finally:
            # a build that goes on would hold the lock of the engine
            process.kill()
    wait_until(lambda: not _sleeps(seconds), lambda: "the step goes on", 300)
    assert not has(toy.image("interrupted"))
    assert list(temporary.iterdir()) == []


def _sleeps(seconds: int) -> bool:
    return subprocess.run(["pgrep", "-f", f"^sleep {seconds}$"], capture_output=True, check=False).returncode == 0


@pytest.mark.extended
def test_a_killed_build_never_leaves_a_partial_image(toy: Toy, tmp_path: Path) -> None:
    """It is killed when each of its parts begins: the image is absent or complete, and the next build succeeds."""
    image = toy.image("killed")
    whole = succeeded(build(*toy.arguments, "--no-cache", "--registry", "whole")).stderr
    parts = [line for line in whole.splitlines() if line.endswith(" ...")]
    assert len(parts) >= 5, whole
    for part in parts:
        process = start(*toy.arguments, "--no-cache", "--registry", "killed", temporary=tmp_path)
        assert process.stderr is not None
        with process.stderr:
            assert any(line.rstrip() == part for line in process.stderr), part
            process.kill()
            process.wait()
        assert not has(image) or is_whole(image), part
    succeeded(build(*toy.arguments, "--registry", "killed", TMPDIR=str(tmp_path)))
    assert is_whole(image)
    assert list(tmp_path.glob("envbuilder-*")) == [], "what the killed ones left is gone"


def test_builds_beside_each_other(toy: Toy, tmp_path: Path) -> None:
    other = make_toy(tmp_path)
    both = [
        start(*toy.arguments, "--no-cache", "--registry", "beside", temporary=tmp_path),
        start(*toy.arguments, "--no-cache", "--registry", "beside", temporary=tmp_path),
        start(*other.arguments, "--no-cache", "--registry", "beside-other", temporary=tmp_path),
    ]
    waited = []
    for process in both:
        _, said = process.communicate(timeout=900)
        assert process.returncode == 0, said[-3000:]
        waited.append("waiting for another build on this engine" in said)
    assert any(waited), "equal steps of builds at once would share their secrets"
    assert is_whole(toy.image("beside"))
    assert is_whole(other.image("beside-other"))


def test_twice_is_the_same(tmp_path: Path, engine: None) -> None:
    """Two builds without a cache are published as one digest, although the engine gives each another id."""
    toy = make_toy(tmp_path, system_packages="hello")
    planned = {build(*toy.arguments, "--dry-run").stdout for _ in range(2)}
    assert len(planned) == 1
    digests = set()
    with registry(tmp_path) as there:
        for name in ("once", "twice"):
            assert build(*toy.arguments, "--no-cache", "--registry", name).returncode == 0
            words = ("--matrices", str(toy.matrices), "--registry", f"{there}/{name}", "--local", name)
            pushed = succeeded(run("push", toy.id, *words))
            digests.add(pushed.stdout.strip().rpartition("@")[2])
    assert len(digests) == 1, run("diff", *map(toy.image, ("once", "twice"))).stdout
    assert "tqdm==4.67.1" in inside(toy.image("once"), INSTALLED)


def test_a_wheel_is_kept_until_something_that_goes_into_it_changes(tmp_path: Path, engine: None) -> None:
    toy, report = make_toy(tmp_path), tmp_path / "report.json"
    keep = ("--wheel-cache", str(tmp_path / "wheels"), "--report", str(report), "--registry", "kept")

    def built(*arguments: str) -> str:
        succeeded(build(*toy.arguments, *keep, *arguments))
        how: str = json.loads(report.read_text())["builds"][0]["wheels"]["wheels-reel"]
        return how

    assert built() == "built"
    identity = json.loads(report.read_text())["builds"][0]["id"]
    assert built() == "kept"
    again = json.loads(report.read_text())["builds"][0]
    assert again["id"] == identity
    assert {step["cached"] for step in again["steps"]} <= {True, None}, "an unchanged rebuild makes nothing"
    branch, engine_file = toy.matrices / "frameworks/toy/v1.yaml", toy.matrices / "engines/reel.yaml"
    branch.write_text(branch.read_text().replace("4.67.1", "4.66.6"))
    toy.lock()
    assert built() == "kept", "another tqdm is nothing to it"
    engine_file.write_text(
        engine_file.read_text().replace("[{kind: wheel}]", "[{kind: wheel, with: {env: {FLAG: '1'}}}]")
    )
    assert built() == "built", "a flag is"
    assert built("--no-cache") == "built"
