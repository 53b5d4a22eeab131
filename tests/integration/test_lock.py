"""Locks with the real uv and the real package index."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from envbuilder import versions
from envbuilder.environment import Catalog
from envbuilder.environment.locks import HASHED, ORIGIN, Lock
from envbuilder.errors import EnvbuilderError, NetworkError
from envbuilder.lock.index import Index, default_index, uv_program
from envbuilder.lock.uv import make_lock
from envbuilder.matrix import Matrix, load
from tests.conftest import A2_VLLM, A2_X86, A3_SGLANG, OPENRLHF, Edit, Result, environment, start, succeeded
from tests.helpers.web_server import reply, serving

INDEX = Index(default_index())
V041 = "frameworks/verl/v0.4.1.yaml"
V050 = "frameworks/verl/v0.5.0.yaml"
V060 = "frameworks/verl/v0.6.0.yaml"
V080 = "frameworks/verl/v0.8.0.yaml"
V090 = "frameworks/verl/v0.9.0.yaml"
PODC_041 = "verl-v0.4.1-vllm-a2-aarch64"
A3_080 = "verl-v0.8.0-vllm-a3-aarch64"
A3_090 = "verl-v0.9.0-vllm-a3-aarch64"


def test_every_lock_is_current_or_has_a_reason_for_its_absence(matrix: Matrix) -> None:
    for item in Catalog(matrix).environments:
        if item.lock is None:
            assert item.unresolved, f"{item.id} has neither a lock nor a reason"
            assert not item.hardware.cpu_only, "every row can be rehearsed"
        else:
            assert any(recorded.level == "resolved" for recorded in item.evidence)


def without_resolver(lock: Lock) -> dict[str, str]:
    """Return the files of a lock, but for the version of the resolver that made it."""
    files = lock.files()
    return files | {ORIGIN: re.sub(r"^resolver: .*\n", "", files[ORIGIN])}


@pytest.mark.parametrize("identifier", [A3_SGLANG, pytest.param(OPENRLHF, marks=pytest.mark.extended)])
def test_locking_again_gives_the_same_bytes(
    matrix: Matrix, identifier: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder and the uv settings of the user do not matter."""
    (tmp_path / "uv").mkdir()
    (tmp_path / "uv" / "uv.toml").write_text('resolution = "lowest"\n')
    for name, value in {
        "TZ": "America/Los_Angeles",
        "UV_PRERELEASE": "allow",
        "XDG_CONFIG_HOME": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)
    target = environment(matrix, identifier)
    assert target.lock is not None
    assert target.lock.files().items() <= matrix.lock_files(target.coordinates.folder).items()
    present = without_resolver(target.lock)
    assert without_resolver(make_lock(target, INDEX)) == present
    again = without_resolver(make_lock(target, INDEX, upgrade_all=True))
    assert again == present, "the row's date fixes what a resolver sees"


def test_a_changed_pin_changes_what_it_touches(edit: Edit, matrix: Matrix) -> None:
    folder = edit(V060, "version: 4.56.1", "version: 4.56.0")
    present = environment(matrix, A3_SGLANG).lock
    assert present is not None
    before = present.versions
    # sglang requires 4.56.1, and the pin has a reason to differ: an override
    after = make_lock(environment(load(folder, everything=True), A3_SGLANG), INDEX).versions
    assert {name for name in before | after if before.get(name) != after.get(name)} == {"transformers"}


# conflicts of these rows as their documents have them, and our messages: (case, environment, edits, words)
CONFLICTS = [
    ("the framework caps tensordict", PODC_041,
     [(V041, "        because: the requirements cap it at 0.6.2, but tensordict has no aarch64 wheel below 0.8\n", ""), (V041, "documented: 0.8.3 on ARM", "documented: 0.8.3")],
     ["verl v0.4.1 requires tensordict<=0.6.2", "tensordict is pinned at 0.8.3"]),
    ("the document's torch_npu is not the plugin's", A2_VLLM, [(V050, "version: 2.5.1\n", "version: 2.5.1rc1\n")],
     ["vllm-ascend v0.7.3.post1 requires torch-npu==2.5.1", "torch_npu is pinned at 2.5.1rc1"]),
    ("the CUDA metadata of vLLM asks for another ray", A2_VLLM, [("compat/vllm.yaml", "requires: [psutil,", "requires: ['ray[adag]==2.40.0', psutil,")],
     ["vLLM v0.7.3 requires ray[adag]==2.40.0", "ray is pinned at 2.46.0"]),
    ("the CUDA metadata of vLLM asks for another torch", OPENRLHF, [("compat/vllm.yaml", "requires: [cachetools, psutil, sentencepiece, numpy, requests>=2.26.0, tqdm, blake3, py-cpuinfo, transformers>=4.51.1", "requires: [torch==2.6.0, cachetools, psutil, sentencepiece, numpy, requests>=2.26.0, tqdm, blake3, py-cpuinfo, transformers>=4.51.1")],
     ["vLLM v0.8.5.post1 requires torch==2.6.0", "torch is pinned at 2.5.1"]),
    ("vLLM and its plugin disagree on torchvision", A2_VLLM, [("compat/vllm.yaml", "requires: [psutil,", "requires: [torchvision==0.21.0, psutil,")],
     ["vLLM v0.7.3 requires torchvision==0.21.0", "torchvision is pinned at 0.20.1"]),
    ("another sglang asks for another transformers", A3_SGLANG,
     [(V060, "        because: sglang v0.5.3rc0 requires it; verl's requirements say 4.52.4, for vLLM\n", "")],
     ["verl v0.6.0 requires transformers==4.52.4", "transformers is pinned at 4.56.1"]),
    ("the resolver takes packages that fail together", A2_VLLM, [(V050, "datasets>=2.14.7", "datasets==2.14.4")],
     ["datasets 2.14.4 and pyarrow 21.0.0 do not work together", "importing datasets fails"]),
    ("a pin is newer than the row's date", A3_SGLANG, [(V060, ", triton-ascend: 2025-12-01}", "}")],
     ["no index has triton-ascend==3.2.0rc4", "the row uses the index as of 2025-10-20", "newer_packages"]),
    ("torch of another index", A2_X86, [("host.yaml", "    indexes:", "    #")],
     ["no index has torch==2.5.1+cpu"]),
    ("vLLM and its plugin disagree on opencv", A3_080, [(V080, "      opencv_python_headless:\n        version: 4.11.0.86\n", "      six:\n        version: 1.17.0\n")],
     ["vLLM v0.18.0 requires opencv-python-headless>=4.13.0", "vllm-ascend v0.18.1.dev45 requires opencv-python-headless<=4.11.0.86"]),
    ("a release that only the vendor's index has", A3_090, [(V090, "    indexes: {triton_ascend:", "    #")],
     ["no index has t"]),
    ("the CUDA metadata of vLLM asks for another torchaudio", A3_090, [("compat/vllm.yaml", "'transformers>=4.56.0,!=5.0.*,", "torchaudio==2.11.0, 'transformers>=4.56.0,!=5.0.*,")],
     ["vLLM v0.23.0 requires torchaudio==2.11.0", "torchaudio is pinned at 2.10.0"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("identifier", "edits", "words"), [case[1:] for case in CONFLICTS], ids=[case[0] for case in CONFLICTS]
)
def test_a_conflict_is_explained_in_our_terms(
    identifier: str, edits: list[tuple[str, str, str]], words: list[str], edit: Edit, impatient: None
) -> None:
    for change in edits:
        folder = edit(*change)
    changed = load(folder, everything=True)
    with pytest.raises(EnvbuilderError) as caught:
        make_lock(environment(changed, identifier), INDEX)
    said = f"{caught.value.message} {caught.value.hint}"
    for word in words:
        assert word in said, said
    assert caught.value.exit_code == 3
    assert caught.value.where is not None
    assert caught.value.where.line >= 1


def test_an_unreachable_index_is_named_with_the_package(edit: Edit, impatient: None) -> None:
    folder = edit("hardware/a2.yaml", "  aarch64: {}\n", "  aarch64: {indexes: {ray: 'http://127.0.0.1:9/simple'}}\n")
    changed = load(folder, everything=True)
    with pytest.raises(NetworkError, match=r"needs ray from http://127.0.0.1:9/simple, which cannot be reached"):
        make_lock(environment(changed, A2_VLLM), INDEX)


@pytest.mark.parametrize(("version", "hashed"), [("0.23.0", True), ("0.23.0.post9", False)])
def test_a_package_whose_requirements_are_known_needs_no_index_to_lock_the_rest(
    edit: Edit, impatient: None, version: str, hashed: bool
) -> None:
    """The hash is that of the present lock, if it has the same version."""
    edit(
        "compat/torchvision.yaml", "releases:\n", f"releases:\n- {{version: {version}, requires: [tabulate>=0.9.0]}}\n"
    )
    edit("frameworks/verl/v0.8.0.yaml", "torchvision: {version: 0.23.0,", f"torchvision: {{version: {version},")
    folder = edit(
        "hardware/a3.yaml", "  aarch64: {}\n", "  aarch64: {indexes: {torchvision: 'http://127.0.0.1:9/simple'}}\n"
    )
    made = make_lock(environment(load(folder, everything=True), "verl-v0.8.0-sglang-a3-aarch64"), INDEX)
    assert made.versions["torchvision"] == version
    assert [item.name for item in made.parts["unhashed"]] == ([] if hashed else ["torchvision"])
    assert versions.satisfies(made.versions["tabulate"], ">=0.9.0"), "what it requires is resolved with the rest"


@pytest.mark.parametrize(
    ("status", "words"),
    [(503, "answers 503 Service Unavailable"), (403, "answers 403 Forbidden"), (401, "answers 401 Unauthorized")],
)
def test_a_refusing_index_is_not_blamed_on_the_row(matrix: Matrix, status: int, words: str, impatient: None) -> None:
    with (
        serving(lambda handler, _: reply(handler, status)) as server,
        pytest.raises(NetworkError, match=rf"{server.host}/simple.* {words}"),
    ):
        make_lock(environment(matrix, A3_SGLANG), Index(server.url.rstrip("/")))


def test_the_command_records_what_could_not_be_resolved(edit: Edit, impatient: None) -> None:
    """The row has no lock yet, and the index of its hardware cannot be reached."""
    edit("hardware/a2.yaml", "  aarch64: {}\n", "  aarch64: {indexes: {ray: 'http://127.0.0.1:9/simple'}}\n")
    folder = edit(V050, "title: verl v0.5.0", "title: verl v9")
    (folder / V050).rename(folder / "frameworks/verl/v9.yaml")
    name = "verl-v9-vllm-a2-aarch64"
    words = ("lock", name, "--matrices", str(folder))
    result = start(*words)
    assert result.returncode == 7, result.stderr
    assert "needs ray from http://127.0.0.1:9/simple" in result.stderr
    assert not (folder / "locks").exists()
    assert "unresolved:" in (folder / "evidence" / "verl" / "v9.yaml").read_text()
    state = start(*words, "--check")
    assert (state.returncode, state.stdout) == (0, f"unresolved: {name}\n")


def test_the_command_locks_and_records(edit: Edit) -> None:
    folder = edit(V060, "title: verl v0.6.0", "title: verl v9")
    (folder / V060).rename(folder / "frameworks/verl/v9.yaml")
    name = "verl-v9-sglang-cpu-aarch64"
    words = ("lock", name, "--matrices", str(folder))
    missing = start(*words, "--check")
    assert (missing.returncode, missing.stdout) == (3, f"missing: {name}\n")
    result = succeeded(start(*words))
    assert "173 packages, written" in result.stderr
    assert "level: resolved" in (folder / "evidence" / "verl" / "v9.yaml").read_text()
    files = {path.stem: path.read_text() for path in (folder / "locks/verl/v9/sglang-cpu-aarch64").iterdir()}
    assert files.keys() == {ORIGIN, *HASHED}
    assert re.fullmatch(r"resolver: uv \S+\ninputs: [0-9a-f]{64}\n(sdist: \S+ sha256:[0-9a-f]{64}\n)+", files[ORIGIN])
    assert "unchanged" in start(*words).stderr
    assert start(*words, "--check").returncode == 0


# --- locks install ---------------------------------------------------------------------------------------

# a row of which no other test makes an image or an installation
INSTALLED = "openrlhf-v0.7.5-vllm"
MODULES = ["torch", "transformers", "ray", "deepspeed", "datasets", "peft", "torchmetrics"]


def venv_from(lock: str, folder: Path) -> Result:
    subprocess.run([uv_program(), "venv", "--quiet", "--python", "3.11", str(folder)], check=True)
    requirements = folder / "requirements.txt"
    requirements.write_text(lock)
    options = ["--quiet", "--python", str(folder / "bin/python"), "--no-deps", "--require-hashes"]
    command = [uv_program(), "pip", "install", *options, "--requirement", str(requirements)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.extended
def test_a_lock_installs_and_imports(matrix: Matrix, tmp_path: Path) -> None:
    """Install into a virtual environment of this machine; torch_npu is left out, as it needs CANN."""
    lock = environment(matrix, f"{INSTALLED}-cpu-{platform.machine()}").lock
    assert lock is not None
    result = venv_from("".join(map(lock.part, HASHED)), tmp_path / "venv")
    assert result.returncode == 0, result.stderr
    hide = "import sys; sys.modules['torch_npu'] = None\n"
    code = hide + "\n".join(f"import {name}" for name in MODULES)
    imported = subprocess.run(
        [tmp_path / "venv/bin/python", "-c", code],
        capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    )  # fmt: skip
    assert imported.returncode == 0, imported.stderr[-2000:]
    shutil.rmtree(tmp_path / "venv")


def test_a_flipped_hash_does_not_install(matrix: Matrix, tmp_path: Path) -> None:
    lock = environment(matrix, f"verl-v0.6.0-sglang-cpu-{platform.machine()}").lock
    assert lock is not None
    good = lock.only({"tqdm"})
    digest = good.rpartition("sha256:")[2].strip()
    assert good.count("sha256:") == 1
    bad = good.replace(digest, ("0" if digest[0] != "0" else "1") + digest[1:])
    assert venv_from(good, tmp_path / "one").returncode == 0
    result = venv_from(bad, tmp_path / "two")
    assert result.returncode != 0
    assert "hash" in result.stderr.lower()
