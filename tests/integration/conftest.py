"""A docker engine, the command line, and a small matrix whose images are built in seconds."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from envbuilder import paths, platforms
from envbuilder.environment import Environment
from envbuilder.environment.locks import Lock
from envbuilder.lock.index import uv_program
from envbuilder.matrix import Matrix, load
from tests.conftest import Result, environment, start, succeeded

# the base image that `envbuilder base` makes
BASE = f"envbuilder/base:bookworm-py3.11-{platforms.arch()}"
# the base image of toys: BASE without compilers has a quarter of its size, which each push and pull moves
SMALL = "docker.io/small/base:1"
_SMALLER = """
RUN apt-mark auto '.*' && apt-mark manual ca-certificates python3-pip && apt-get autoremove --purge --yes \\
    -o APT::AutoRemove::RecommendsImportant=false -o APT::AutoRemove::SuggestsImportant=false \\
    && rm -r /usr/share/doc /usr/share/locale /usr/share/man
FROM scratch
COPY --from=whole / /
"""
# what `make demo` builds
DEMO = f"verl-v0.6.0-sglang-cpu-{platforms.arch()}"
SECOND, SECOND_ADDRESS = "second engine", "SECOND_DOCKER_HOST"
REHEARSAL = "test_rehearsal"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """With several workers, let one of them run all tests of an engine, or of a module that needs no engine.

    The tests of the demo's image use the first engine, which may have it. A second one, if there is one, has the others;
    of the extended tests it has the rehearsals alone, which take as long as all others.
    """
    for item in items:
        if Path(__file__).parent not in item.path.parents:
            continue
        fixtures: Sequence[str] = getattr(item, "fixturenames", ())
        group = item.path.stem
        if "engine" in fixtures:
            is_other = item.get_closest_marker("extended") is not None and item.path.stem != REHEARSAL
            is_first = "demo" in fixtures or is_other or SECOND_ADDRESS not in os.environ
            group = "engine" if is_first else SECOND
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def engine() -> Iterator[None]:
    """Prepare the engine of this worker; images under names that are not the product's are removed afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        # the identifier of a test ends with its group
        if f"@{SECOND} " in os.environ["PYTEST_CURRENT_TEST"]:
            _share_base(os.environ["DOCKER_HOST"], os.environ[SECOND_ADDRESS])
            patch.setenv("DOCKER_HOST", os.environ[SECOND_ADDRESS])
        yield from _prepared()


def _share_base(first: str, second: str) -> None:
    """Copy the base image to the second engine if the first has it: mmdebstrap takes a minute."""
    copy = f"docker --host {first} image save {BASE} | docker --host {second} image load"
    subprocess.run(["bash", "-c", copy], capture_output=True, check=False)


def _prepared() -> Iterator[None]:
    answer = subprocess.run(["docker", "version"], capture_output=True, check=False)
    if answer.returncode != 0:
        pytest.skip(
            "needs a docker engine: run `make test`, or set DOCKER_HOST to the address that tools/engine.sh prints"
        )
    # made here: the base image of a registry may differ from what the tests expect
    subprocess.run(command("base"), check=True, capture_output=True)
    before = _images()
    make_image(f"{BASE} AS whole", _SMALLER, SMALL)
    yield
    ours = [name for name in _images() - before if not name.startswith("envbuilder/") or "/toy:" in name]
    if ours:
        docker("image", "rm", "--force", *ours)
    # the build cache of a user's engine is not ours to remove
    if "/envbuilder/engine" in os.environ.get("DOCKER_HOST", ""):
        docker("builder", "prune", "--force", "--keep-storage", "5GB")


class Demo(NamedTuple):
    """The image of the demo, which is proven, and the report of its build."""

    row: Environment
    image: str
    report: dict[str, Any]


@pytest.fixture(scope="session")
def demo(engine: None, matrix: Matrix, tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """Build and prove the image of the demo, unless the engine has it."""
    row, report = environment(matrix, DEMO), tmp_path_factory.mktemp("demo") / "report.json"
    succeeded(run("build", DEMO, "--report", str(report)))
    return Demo(row, row.image_name("envbuilder"), json.loads(report.read_text()))


def _images() -> set[str]:
    return {name for name in docker("images", "--format", "{{.Repository}}:{{.Tag}}").split() if "<none>" not in name}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "envbuilder", *arguments]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not retry an index that cannot be reached."""
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")


def build(*arguments: str, **variables: str) -> Result:
    """Build without the proof: most tests are about building."""
    return run("build", *arguments, "--no-validate", **variables)


# as processes: these tests run several commands at once
run = start


def docker(*arguments: str) -> str:
    result = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


def make_image(base: str, commands: str, name: str) -> None:
    """Build an image with these commands on a base image."""
    text = f"FROM {base}\n{commands}\n"
    subprocess.run(["docker", "build", "-q", "-t", name, "-"], input=text, text=True, check=True, capture_output=True)


def inside(image: str, code: str) -> str:
    return docker("run", "--rm", "--network", "none", image, "bash", "-c", code)


def labels(image: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(docker("image", "inspect", image))[0]["Config"]["Labels"]
    return found


def installed(prefix: Path) -> list[str]:
    """Return the packages that were installed into the virtual environment of a folder."""
    code = "from importlib.metadata import distributions\nfor d in distributions(): print(d.name.lower() + '==' + d.version)"
    shown = subprocess.run([prefix / "venv" / "bin" / "python", "-c", code], capture_output=True, text=True, check=True)
    return sorted(line for line in shown.stdout.split() if not line.startswith(("pip==", "setuptools==")))


def lock_of(matrix: Matrix, identifier: str) -> Lock:
    lock = environment(matrix, identifier).lock
    assert lock is not None
    return lock


def write_part(matrices: Path, lock: Lock, identifier: str, part: str, text: str) -> None:
    """Write the lock of an environment into a matrix folder, with another text for one part."""
    folder = paths.lock_folder(matrices, environment(load(), identifier).coordinates.folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {**lock.files(), part: text}.items():
        (folder / f"{name}.txt").write_text(content)


def cut_off(words: Sequence[str], home: Path, **variables: str) -> Result:
    """Run a command without a network, with an empty home folder."""
    probe = subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip("needs the right to make a network namespace")
    return subprocess.run(
        ["unshare", "--net", *words], capture_output=True, text=True, check=False,
        env={**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), **variables},
    )  # fmt: skip


# --- the small matrix ------------------------------------------------------------------------------------

_COMPONENT = """
title: {name}
kind: git
distribution: {name}
on_index: false
source: example/{name}@1:README.md
repository: https://git.example/{name}.git
releases:
- {{version: v1.0.0, commit: {commit}}}
"""
_ENGINE = """
title: Reel
engine: reel
plugin: reel
build_packages: [setuptools, wheel]
system_packages: [{system_packages}]
sources: {{x: example/reel@1:README.md}}
pins:
  setuptools: {{version: 79.0.1, source: x}}
  wheel: {{version: 0.45.1, source: x}}
layers:
- {{title: Reel, component: reel, steps: [{{kind: wheel}}]}}
"""
_FRAMEWORK = """
title: Toy
component: toy
thresholds: {loss_percent: '2', reward_percent: '4', source: example/toy@1:README.md}
layers:
- {title: Toy, component: toy, keep_source: true, steps: [{kind: install-editable}]}
"""
_BRANCH = """
title: Toy v1
date: 2025-10-15
exclude_newer: 2025-10-20
sources: {x: example/toy@1:README.md}
pins: {toy: {version: v1.0.0, source: x}}
engines:
  reel:
    hardware: [a3]
    source: x
    pins:
      python: {version: '3.11', source: x}
      cann: {version: 8.3.RC1, source: x}
      hdk: {version: 25.3.RC1, source: x}
      reel: {version: v1.0.0, source: x}
      tqdm: {version: 4.67.1, source: x}
"""
PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "{name}"
version = "{version}"
[tool.setuptools]
packages = ["{name}"]
"""

# pip knows two ways to install such a project
_SETUP_ALONE = {
    "toy/__init__.py": "",
    "setup.py": "from setuptools import setup\nsetup(name='toy', version='1.0.0', packages=['toy'])\n",
}


@dataclass(frozen=True)
class Toy:
    """A matrix of one row, with its own repositories."""

    matrices: Path
    mirror: Path

    @property
    def id(self) -> str:
        return f"toy-v1-reel-cpu-{platforms.arch()}"

    @property
    def arguments(self) -> tuple[str, ...]:
        return (self.id, "--matrices", str(self.matrices), "--git-mirror", str(self.mirror))

    def image(self, registry: str = "envbuilder") -> str:
        return environment(load(self.matrices), self.id).image_name(registry)

    def lock(self) -> None:
        succeeded(run("lock", self.id, "--matrices", str(self.matrices)))


def repository(
    mirror: Path,
    name: str,
    *,
    setup: str = "",
    version: str = "1.0.0",
    folder: str = ".",
    project: str = "pyproject.toml",
    files: Mapping[str, str] | None = None,
) -> str:
    """Make a bare repository of a Python project, or of these files, and return its commit."""
    work, bare = mirror / f"{name}-work", mirror / f"{name}.git"
    root = work / folder
    if files is None:
        files = {f"{name}/__init__.py": "", project: PROJECT.format(name=name, version=version)}
        files |= {"setup.py": setup} if setup else {}
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example", "-C", str(work)]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *arguments], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", str(work), str(bare)], check=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()


def make_toy(folder: Path, *, setup: str = "", framework_setup: str = "", system_packages: str = "") -> Toy:
    """Make the small matrix; `setup` is the setup.py of the engine, which has its own stage."""
    toy = Toy(folder / "matrices", folder / "mirror")
    commits = {
        "toy": repository(toy.mirror, "toy", setup=framework_setup, files=None if framework_setup else _SETUP_ALONE),
        "reel": repository(toy.mirror, "reel", setup=setup),
    }
    cpu = (paths.matrices() / "hardware/cpu.yaml").read_text()
    name, tag = SMALL.split(":")
    files = {
        "engines/reel.yaml": _ENGINE.format(system_packages=system_packages),
        "frameworks/toy.yaml": _FRAMEWORK,
        "frameworks/toy/v1.yaml": _BRANCH,
        "hardware/cpu.yaml": re.sub(
            r"\nbase: .*", f"\nbase: {{image: {name}, tag: '{tag}'}}", cpu.replace("disk_gb: 12", "disk_gb: 2")
        ),
        **{f"compat/{name}.yaml": _COMPONENT.format(name=name, commit=commit) for name, commit in commits.items()},
    }
    for path, text in files.items():
        (toy.matrices / path).parent.mkdir(parents=True, exist_ok=True)
        (toy.matrices / path).write_text(text)
    toy.lock()
    return toy


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory, engine: None) -> Toy:
    return make_toy(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from the source archive, which is beside it."""
    folder = tmp_path_factory.mktemp("dist")
    root = Path(__file__).resolve().parents[2]
    subprocess.run([uv_program(), "build", "--quiet", "--out-dir", str(folder), str(root)], check=True)
    (built,) = folder.glob("ascend_envbuilder-*.whl")
    return built


@pytest.fixture
def there(tmp_path: Path) -> Iterator[str]:
    """Serve an empty registry."""
    from tests.helpers.servers import registry

    with registry(tmp_path) as address:
        yield address


@pytest.fixture(scope="module")
def published(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve a registry that has the image of the small matrix."""
    from tests.helpers.servers import registry

    with registry(tmp_path_factory.mktemp("registry")) as address:
        succeeded(build(*toy.arguments, "--registry", address, "--push"))
        yield address
