"""Environments on this host: interrupted and resumed, installed by the script, and trained."""

from __future__ import annotations

import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from envbuilder import platforms
from tests.conftest import Result, succeeded
from tests.integration.conftest import Toy, command, installed, make_toy, run

REAL = f"verl-v0.6.0-sglang-cpu-{platforms.arch()}"


def last_done(prefix: Path) -> str | None:
    """Return the part that was done last, or None if another was begun after it."""
    lines = [json.loads(line) for line in (prefix / "journal.jsonl").read_text().splitlines() if line.strip()]
    return lines[-1]["title"] if lines and lines[-1]["state"] == "done" else None


def orphans(prefix: Path) -> Iterator[int]:
    """Yield the processes that an installation has left: they hold its lock."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            held = [str(file.readlink()) for file in (folder / "fd").iterdir()]
        except OSError:
            continue
        if str(prefix / "turn") in held:
            yield int(folder.name)


def kill_in(words: Sequence[str], prefix: Path, part: str, after: float, *, all_of_it: bool) -> None:
    """Start an installation and kill it `after` seconds into a part, or at the end of the part."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said: queue.Queue[str] = queue.Queue()
    listener = threading.Thread(target=_listen, args=(process.stderr, said))
    listener.start()
    while (line := said.get(timeout=900)) != f"  {part} ...\n":
        assert line, f"'{part}' is never begun"
    with suppress(queue.Empty):
        # the next line reports that the part is done
        said.get(timeout=after)
    process.kill()
    process.wait()
    listener.join()
    process.stderr.close()
    for pid in orphans(prefix) if all_of_it else ():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _listen(lines: Iterable[str], said: queue.Queue[str]) -> None:
    for line in lines:
        said.put(line)
    said.put("")


def install(toy: Toy, prefix: Path, *more: str) -> list[str]:
    return command("install", *toy.arguments, "--prefix", str(prefix), *more)


def activated(prefix: Path, *words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Result:
    """Run a command in a shell that has activated an installation."""
    shell = ["bash", "-c", f'source {prefix}/activate && exec "$@"', "bash", *words]
    return subprocess.run(shell, capture_output=True, text=True, check=False, cwd=cwd, env=env)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Make the small matrix without the engine, which these tests do not need."""
    return make_toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def reference(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install without an interruption."""
    prefix = tmp_path_factory.mktemp("reference") / "prefix"
    subprocess.run(install(toy, prefix), check=True, capture_output=True)
    return prefix


def test_an_environment_is_installed_once(toy: Toy, reference: Path) -> None:
    code = "import toy, reel, tqdm, os; print(tqdm.__version__, os.environ['ENVBUILDER_PREFIX'])"
    shown = activated(reference, "python3", "-c", code)
    assert shown.stdout.split() == ["4.67.1", str(reference)]
    before = (reference / "install.log").read_text()
    again = subprocess.run(install(toy, reference), capture_output=True, text=True, check=True)
    assert (reference / "install.log").read_text() == before, "nothing was done again"
    assert "done before" in again.stderr
    planned = subprocess.run(install(toy, reference, "--dry-run"), capture_output=True, text=True, check=True)
    assert {line.split()[0] for line in planned.stdout.splitlines()} == {"done"}


def test_another_index_is_used(toy: Toy, tmp_path: Path) -> None:
    """There is no index at this address."""
    words = install(toy, tmp_path / "prefix", "--index-url", "http://127.0.0.1:9/simple")
    nothing_kept = {"PIP_RETRIES": "0", "UV_HTTP_RETRIES": "0", "UV_CACHE_DIR": str(tmp_path), "PIP_NO_CACHE_DIR": "1"}
    result = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, **nothing_kept})
    assert result.returncode == 1 and "'virtual environment' failed" in result.stderr


def test_an_installation_with_another_source_than_the_row_fails(toy: Toy, reference: Path, tmp_path: Path) -> None:
    matrices = Path(shutil.copytree(toy.matrices, tmp_path / "matrices"))
    for folder, code in ((toy.matrices, 0), (matrices, 6)):
        shown = activated(reference, *command("validate", "--local", "--level", "static", "--matrices", str(folder)))
        assert shown.returncode == code, shown.stdout + shown.stderr
        compat = matrices / "compat" / "reel.yaml"
        compat.write_text(re.sub(r"commit: \w+", f"commit: {'1' * 40}", compat.read_text()))
    assert "envbuilder.source.reel" in shown.stdout + shown.stderr


@pytest.mark.parametrize("all_of_it", [True, False], ids=["everything", "envbuilder alone"])
def test_kills_leave_nothing_behind(toy: Toy, reference: Path, tmp_path: Path, all_of_it: bool) -> None:
    """Its processes are killed too, or continue for a while, and the next attempt waits for them."""
    prefix, words = tmp_path / "prefix", install(toy, tmp_path / "prefix")
    planned = subprocess.run([*words, "--dry-run"], capture_output=True, text=True, check=True).stdout
    parts = [line.removeprefix("to do").strip() for line in planned.splitlines()]
    assert len(parts) >= 5
    for part in parts[-5:]:
        kill_in(words, prefix, part, 0.2, all_of_it=all_of_it)
        finished = last_done(prefix) == parts[-1]
        assert finished or not (prefix / "activate").exists()
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert installed(prefix) == installed(reference)


def hostile(folder: Path) -> dict[str, str]:
    """Make settings of a user for other installations; return them as variables."""
    config, repository, other = folder / "config", folder / "mine", folder / "other"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", other], check=True)
    led_away = f"[pip]\npython = '{other}/bin/python3'\n"
    for name, text in (("uv/uv.toml", led_away), ("pip/pip.conf", "[global]\nuser = true\n")):
        (config / name).parent.mkdir(parents=True, exist_ok=True)
        (config / name).write_text(text)
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch", "main", repository], check=True)
    return {
        "XDG_CONFIG_HOME": str(config), "GIT_DIR": str(repository), "UV_CONSTRAINT": str(folder / "none"),
        "PIP_REQUIRE_HASHES": "1", "UV_EXCLUDE_NEWER": "2000-01-01", "FORCE_COLOR": "1", "RUST_LOG": "debug",
    }  # fmt: skip


def test_settings_for_other_installations_are_ignored(toy: Toy, reference: Path, tmp_path: Path) -> None:
    variables = {**os.environ, **hostile(tmp_path)}
    result = subprocess.run(install(toy, tmp_path / "prefix"), capture_output=True, text=True, env=variables)
    assert result.returncode == 0, result.stderr
    assert installed(tmp_path / "prefix") == installed(reference)
    # the working folder is ignored too
    for name in ("pytest", "toy", "tqdm"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('of the current folder')\n")
    words = command("validate", "--local", "--level", "import", "--matrices", str(toy.matrices))
    shown = activated(tmp_path / "prefix", *words, cwd=tmp_path, env=variables)
    assert shown.returncode == 0 and "imports: 5 passed" in shown.stderr, shown.stdout + shown.stderr


def test_the_script_installs_the_same(toy: Toy, reference: Path, tmp_path: Path) -> None:
    script = run("install", toy.id, "--matrices", str(toy.matrices), "--script").stdout
    mirror = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{toy.mirror}/.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://git.example/",
    }
    (tmp_path / "install.sh").write_text(script)
    patched = tmp_path / "prefix" / "src" / "toy" / "toy" / "__init__.py"
    # the second begins again in the folder of the first, whose sources were patched by hand, and which lost a file
    for _ in range(2):
        result = subprocess.run(
            ["bash", tmp_path / "install.sh", tmp_path / "prefix"],
            env={**os.environ, **mirror, **hostile(tmp_path)},
            capture_output=True,
            text=True,
        )
        assert result.returncode == 0, result.stderr
        assert installed(tmp_path / "prefix") == installed(reference)
        assert patched.read_text() == ""
        patched.write_text("patched = True\n")
        (lost,) = tmp_path.glob("prefix/venv/lib/*/site-packages/tqdm/std.py")
        lost.unlink()
    assert (tmp_path / "mine" / "HEAD").read_text() == "ref: refs/heads/main\n", "the user's repository is untouched"


# --- a real one ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheels() -> Iterator[None]:
    """Remove the wheels of a real environment: on x86_64 they are 9 GB, and other tests need the disk."""
    yield
    shutil.rmtree(Path(os.environ["XDG_CACHE_HOME"]) / "uv")


@pytest.mark.extended
def test_a_real_environment_survives_five_kills_and_trains(wheels: None, tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    words = command("install", REAL, "--prefix", str(prefix), "--source", "sdist")
    points = {"virtual environment": 1.0, "SGLang": 2.0, "torch": 1.5, "settled wheels": 1.5, "verl": 1.0}
    for number, (part, after) in enumerate(points.items()):
        kill_in(words, prefix, part, after, all_of_it=number % 2 == 0)
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    # wheels of the vendor record wrong sizes of their files; they are complete nevertheless
    assert any(line.startswith(("torch-npu==", "torch_npu==")) for line in installed(prefix))
    proof = succeeded(activated(prefix, *command("validate", "--local", "--json")))
    report = json.loads(proof.stdout)
    assert report["environment"] == REAL and report["proven"] == "train"
    assert report["training"]["reward_last"] > report["training"]["reward_first"] + 0.2
