"""A project on a small row: real locks, images and containers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from envbuilder.project.lock_file import read_project_lock
from tests.conftest import Result, succeeded
from tests.helpers.ci_guide import commands_of
from tests.helpers.repositories import git
from tests.integration.conftest import Demo, Toy, build, command, cut_off, docker, inside, labels, make_image, run

REGISTRY = "projects"
EDITOR = "@devcontainers/cli@0.89.0"


class Folder:
    """A folder with a fork of the toy's framework, in git."""

    def __init__(self, path: Path, toy: Toy) -> None:
        self.path, self.toy = path, toy
        self.options = ("--matrices", str(toy.matrices))
        subprocess.run(["git", "clone", "-q", str(toy.mirror / "toy.git"), str(path)], check=True)

    def __call__(self, *words: str) -> Result:
        return run(*words, *self.options)

    def build(self, *words: str) -> str:
        """Build without the proof, and return the name of the image."""
        made = build(*self.options, "--git-mirror", str(self.toy.mirror), "--registry", REGISTRY, *words)
        return succeeded(made).stdout.strip()

    def change(self, text: str) -> None:
        """Add lines to the project's file, and lock it."""
        file = self.path / "envbuilder.toml"
        file.write_text(file.read_text() + text)
        succeeded(self("lock"))


@pytest.fixture
def project(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    folder = Folder(tmp_path / "Own Toy", toy)
    monkeypatch.chdir(folder.path)
    succeeded(folder("init", "--framework", "toy", "--hw", "cpu"))
    assert 'sources = { toy = "." }' in (folder.path / "envbuilder.toml").read_text()
    yield folder
    for name in docker("images", "--format", "{{.Repository}}:{{.Tag}}", "--filter", f"reference={REGISTRY}/*").split():
        docker("rmi", "--force", name)


def layers(image: str) -> list[str]:
    found: list[str] = json.loads(docker("image", "inspect", image))[0]["RootFS"]["Layers"]
    return found


def test_a_project_is_layers_on_the_image_of_its_row(project: Folder) -> None:
    (project.path / "scripts").mkdir()
    (project.path / "scripts" / "go.sh").write_text("#!/bin/sh\necho gone\n")
    (project.path / "scripts" / "go.sh").chmod(0o755)
    (project.path / "toy" / "__init__.py").write_text("MINE = 1\n")
    succeeded(project("add", "wcwidth"))
    project.change('variables = { MOOD = "a $HOME b" }\nfiles = { scripts = "/workspace/scripts" }\n')
    image = project.build()
    row = project.toy.image(REGISTRY)
    assert image.startswith(f"{REGISTRY}/own-toy:v1-")
    first = layers(image)
    assert first[: len(layers(row))] == layers(row), "nothing of the row is changed"
    code = "import toy, wcwidth, os; print(toy.MINE, toy.__file__, os.environ['MOOD'])"
    assert inside(image, f'python3 -c "{code}"') == "1 /opt/envbuilder/src/toy/toy/__init__.py a $HOME b\n"
    assert inside(image, "/workspace/scripts/go.sh") == "gone\n"
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    found = labels(image)
    assert found["envbuilder.source.toy"] == f"git:{head}-dirty" and found["envbuilder.project"] == "own-toy"
    assert found["envbuilder.proven"] == "", "the proof of the row is not that of the project"
    # the fork comes last, so that editing it changes its own layer and the check after it
    (project.path / "toy" / "__init__.py").write_text("MINE = 2\n")
    second = layers(project.build())
    same = sum(one == other for one, other in zip(first, second, strict=True))
    assert same >= len(layers(row)) + 2, (first, second)
    assert inside(image, 'python3 -c "import toy; print(toy.MINE)"') == "2\n"


def test_a_project_is_proven_like_a_row(project: Folder) -> None:
    succeeded(project("add", "wcwidth"))
    arguments = ("--git-mirror", str(project.toy.mirror), "--registry", REGISTRY, "--report", "report.json")
    image = succeeded(run("build", *project.options, *arguments)).stdout.split()[0]
    (report,) = json.loads((project.path / "report.json").read_text())["builds"]
    checks = {check["name"]: check["status"] for check in report["validation"]["checks"]}
    assert checks["account"] == checks["files"] == checks["import wcwidth of the project"] == "passed", checks
    # a file that nothing has put there
    make_image(image, "RUN touch /usr/local/lib/python3.11/dist-packages/evil.pth", f"{REGISTRY}/own-toy:evil")
    refused = project("validate", f"{REGISTRY}/own-toy:evil", "--level", "static")
    assert refused.returncode == 6 and "evil.pth" in refused.stderr


def test_edits_take_effect_without_a_build(project: Folder) -> None:
    image = project.build()
    (project.path / "toy" / "__init__.py").write_text("MINE = 3\n")
    words = ("run", "--dev", "--registry", REGISTRY)
    code = "import os, toy; print(toy.MINE, os.getuid()); open('/opt/envbuilder/src/toy/made', 'w').close()"
    shown = succeeded(run(*words, *project.options, "--", "python3", "-c", code))
    assert shown.stdout.split() == ["3", str(os.getuid())]
    assert (project.path / "made").stat().st_uid == os.getuid()
    assert "MINE" not in inside(image, "cat /opt/envbuilder/src/toy/toy/__init__.py")


@pytest.mark.extended
@pytest.mark.skipif(shutil.which("npx") is None, reason="needs npx, which gets the reference program of dev containers")
def test_an_editor_works_in_the_image(project: Folder) -> None:
    """The program reads devcontainer.json as editors do, starts the container and enters it."""
    image = project.build()
    (project.path / "toy" / "__init__.py").write_text("MINE = 7\n")
    options = ("--dev", "--registry", REGISTRY, "--env", "MOOD=good", "--volume", f"{project.path}/toy:/looked:ro")
    succeeded(run("run", "--print", "devcontainer", *options, *project.options))
    program = ["npx", "--yes", EDITOR]
    folder = ["--workspace-folder", str(project.path)]
    started = subprocess.run([*program, "up", *folder], capture_output=True, text=True, check=False)
    assert started.returncode == 0, started.stderr
    name = json.loads(started.stdout.splitlines()[-1])["containerId"]
    try:
        code = "import os, toy; print(toy.MINE, os.environ['MOOD'], os.path.isfile('/looked/__init__.py'))"
        entered = [*program, "exec", *folder, "python3", "-c", code]
        shown = subprocess.run(entered, capture_output=True, text=True, check=False)
        assert shown.stdout.split() == ["7", "good", "True"], shown.stderr
        (found,) = json.loads(docker("inspect", name))
        assert found["Config"]["Image"].startswith((image, "vsc-")) and found["HostConfig"]["ShmSize"] >= 2**30
    finally:
        docker("rm", "--force", name)


def test_the_files_that_differ_are_named(project: Folder) -> None:
    (project.path / "toy" / "__init__.py").write_text("MINE = 4\n")
    (project.path / "new.py").write_text("")
    succeeded(project("lock"))
    shown = succeeded(run("diff", *project.options, "--git-mirror", str(project.toy.mirror))).stdout
    assert "~ toy/__init__.py" in shown and "+ new.py" in shown and "- toy/__init__.py" not in shown


def test_a_site_without_a_network(project: Folder, tmp_path: Path) -> None:
    """The bundle has the packages; the fork and the files are in the folder of the project."""
    (project.path / "toy" / "__init__.py").write_text("MINE = 5\n")
    succeeded(project("add", "wcwidth"))
    mirror, file, home = ("--git-mirror", str(project.toy.mirror)), str(tmp_path / "own.bundle"), tmp_path / "home"
    succeeded(project("bundle", *mirror, "--for-build", "-o", file))
    offline = (*project.options, "--offline", file)
    built = command("build", *offline, "--registry", REGISTRY, "--no-validate", "--wheel-cache", str(home / "wheels"))
    # the row's image is built from the same file
    image = succeeded(cut_off(built, home)).stdout.strip()
    assert inside(image, 'python3 -c "import toy, wcwidth; print(toy.MINE)"') == "5\n"
    installed = command("install", *offline, "--prefix", str(tmp_path / "prefix"))
    succeeded(cut_off(installed, home))
    code = "import toy, wcwidth; print(toy.MINE)"
    shown = subprocess.run(
        [tmp_path / "prefix/venv/bin/python", "-c", code], capture_output=True, text=True, check=True
    )
    assert shown.stdout == "5\n"
    succeeded(project("add", "six"))
    refused = cut_off(installed, home)
    assert refused.returncode == 1 and "does not have what the project adds, by its present lock" in refused.stderr
    succeeded(run("bundle", *project.toy.arguments, "-o", file))
    assert cut_off(installed, home).returncode == 1, "a bundle of the row alone"


def test_a_source_by_its_address_is_in_the_bundle(project: Folder, tmp_path: Path) -> None:
    work, home, file = tmp_path / "fork", tmp_path / "home", str(tmp_path / "own.bundle")
    (project.path / "toy" / "__init__.py").write_text("MINE = 6\n")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example"]
    subprocess.run([*git, "commit", "-q", "-a", "-m", "mine"], check=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    mirror = tmp_path / "mirror"
    shutil.copytree(project.toy.mirror, mirror)
    shutil.rmtree(mirror / "toy.git")
    subprocess.run(["git", "clone", "-q", "--bare", ".", str(mirror / "toy.git")], check=True)
    work.mkdir()
    text = (project.path / "envbuilder.toml").read_text()
    (work / "envbuilder.toml").write_text(text.replace('toy = "."', f'toy = "https://git.example/me/toy.git@{commit}"'))
    os.chdir(work)
    options = (*project.options, "--git-mirror", str(mirror))
    succeeded(run("lock", *options))
    succeeded(run("bundle", *options, "--for-build", "-o", file))
    offline = (*project.options, "--offline", file, "--registry", REGISTRY, "--no-validate")
    image = succeeded(cut_off(command("build", *offline, "--wheel-cache", str(home / "wheels")), home)).stdout.strip()
    assert inside(image, 'python3 -c "import toy; print(toy.MINE)"') == "6\n"
    assert labels(image)["envbuilder.source.toy"] == f"git:{commit}"


def test_a_published_project(project: Folder, there: str) -> None:
    succeeded(project("add", "wcwidth"))
    mirror = ("--git-mirror", str(project.toy.mirror))
    image = succeeded(build(*project.options, *mirror, "--registry", there, "--push")).stdout.strip()
    docker("rmi", image)
    pulled = succeeded(project("pull", "--registry", there)).stdout.strip()
    assert pulled == image and inside(image, "python3 -c 'import wcwidth'") == ""
    succeeded(project("add", "six"))
    refused = project("pull", "--registry", there)
    assert refused.returncode == 5 and "was made from another lock of the project own-toy" in refused.stderr
    # a machine without an image of the row pulls it
    row, usual = project.toy.image(there), project.toy.image()
    succeeded(build(*project.toy.arguments, "--registry", there, "--push"))
    docker("rmi", image, row)
    has_usual = bool(docker("images", "--quiet", usual))
    if has_usual:
        docker("tag", usual, f"{REGISTRY}/aside:1")
        docker("rmi", usual)
    made = succeeded(build(*project.options, *mirror, "--registry", there))
    assert f"{row}@sha256:" in made.stderr and labels(image)["envbuilder.project"] == "own-toy"
    if has_usual:
        docker("tag", f"{REGISTRY}/aside:1", usual)
    docker("rmi", image, row)


@pytest.mark.extended
def test_the_guide_from_a_fork_to_a_training_step(demo: Demo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of the guide, on a real row with a fork of its framework whose advantages can be told apart."""
    bare, text, at = make_fork(demo, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    for number, value in enumerate((f"url.{bare.parent}/.insteadOf", "https://git.example.com/me/")):
        monkeypatch.setenv(f"GIT_CONFIG_{'KEY' if not number else 'VALUE'}_0", value)
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    where = demo.row.coordinates
    instead = {
        "--hw a3 --engine sglang": f"--hw cpu --branch {where.branch} --engine {where.engine}",
        "envbuilder build ": "envbuilder build --report ../report.json ",
        # its training needs NPUs, and that of the build is enough
        "envbuilder quickstart --run": "envbuilder quickstart >../quickstart.sh",
        "envbuilder validate": "envbuilder validate --level static",
    }
    first, _, edit = commands_of("project.md")[:3]
    result = follow(first, instead)
    assert result.returncode == 0, result.stderr
    (report,) = json.loads(Path("report.json").read_text())["builds"]
    checks = {check["name"]: check["status"] for check in report["validation"]["checks"]}
    assert checks["account"] == checks["import swanlab of the project"] == checks["reward"] == "passed", checks
    assert "advantages of the fork" in Path(report["validation"]["training"]["log"]).read_text()
    monkeypatch.chdir(tmp_path / "verl")
    result = follow(edit, instead)
    assert result.returncode == 0, result.stderr
    assert "~ verl/trainer/ppo/core_algos.py" in result.stdout
    before = labels(report["image"])["envbuilder.project.source.verl"]
    Path("verl/trainer/ppo/core_algos.py").write_text(f"{text[:at]}    return scores * 0, scores * 0\n{text[at:]}")
    refused = run("build")
    assert refused.returncode == 6 and "train: " in refused.stderr
    assert labels(report["image"])["envbuilder.project.source.verl"] == before, "the proven image keeps its name"


def make_fork(demo: Demo, folder: Path) -> tuple[Path, str, int]:
    """Make a repository of the framework that prints where it computes advantages; return it, the file and the place."""
    work, bare = folder / "work", folder / "forks" / "verl.git"
    container = docker("create", demo.image).strip()
    docker("cp", f"{container}:/opt/envbuilder/src/verl", str(work))
    docker("rm", container)
    file = work / "verl" / "trainer" / "ppo" / "core_algos.py"
    text = file.read_text()
    at = text.index("    return scores, scores\n", text.index("def compute_grpo_outcome_advantage"))
    file.write_text(f'{text[:at]}    print("advantages of the fork")\n{text[at:]}')
    for words in (
        ("init", "-q"),
        ("add", "."),
        ("commit", "-q", "-m", "mine"),
        ("clone", "-q", "--bare", ".", str(bare)),
    ):
        git(work, *words)
    return bare, text, at


def follow(block: str, instead: Mapping[str, str]) -> Result:
    """Run the commands of a guide in one shell, with other words for what this machine lacks."""
    for words, other in instead.items():
        block = block.replace(words, other)
    return subprocess.run(
        ["bash", "-euc", block], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def test_a_wrong_hash_in_the_lock_is_refused(project: Folder) -> None:
    succeeded(project("add", "wcwidth"))
    file = project.path / "envbuilder.lock"
    lock = read_project_lock(file)
    assert lock is not None
    forged = {
        name: replace(item, packages=tuple(replace(package, hashes=("0" * 64,)) for package in item.packages))
        for name, item in lock.environments.items()
    }
    file.write_text(replace(lock, environments=forged).text)
    refused = build(*project.options, "--git-mirror", str(project.toy.mirror), "--registry", REGISTRY)
    assert refused.returncode == 1 and "packages of the project" in refused.stderr
