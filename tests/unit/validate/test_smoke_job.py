"""Settings and variables of smoke runs, by environment, device and depth."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from envbuilder.environment import Environment
from envbuilder.errors import HostError, MatrixError
from envbuilder.matrix import Matrix, load
from envbuilder.matrix.model import CPU, NPU, STAND_IN, Depth, Device
from envbuilder.validate.smoke.job import Job, NotRun, Place, backends, smoke_job
from envbuilder.validate.smoke.judge import Curves
from envbuilder.validate.training import _training, spark
from tests.conftest import A3_SGLANG, OPENRLHF, Edit, environment

PLACE = Place(code="/code", folder="/run")


def job(
    matrix: Matrix, identifier: str, *, device: Device = CPU, depth: Depth = "trainer", devices: int = 1,
    backend: str | None = None,
) -> Job:  # fmt: skip
    row = environment(matrix, identifier)
    found = smoke_job(row, device, PLACE, depth=depth, devices=devices, backend=backend)
    assert isinstance(found, Job)
    return found


def obstacle(row: Environment, device: Device, devices: int) -> str | None:
    found = smoke_job(row, device, PLACE, devices=devices)
    return found.reason if isinstance(found, NotRun) else None


def verl(branch: str, engine: str = "vllm") -> str:
    return f"verl-{branch}-{engine}-cpu-aarch64"


@pytest.mark.parametrize(
    ("branch", "engine", "rollout", "mode", "ours"),
    [
        ("v0.4.0", "vllm", "hf", "sync", False),
        ("v0.5.0", "vllm", "hf", "sync", False),
        ("v0.6.0", "sglang", "hf", "sync", True),
        ("v0.7.1", "sglang", "smoke", "async", True),
        ("v0.9.0", "vllm", "smoke", "async", True),
    ],
)
def test_each_release_has_a_rollout_without_an_engine(
    matrix: Matrix, branch: str, engine: str, rollout: str, mode: str, ours: bool
) -> None:
    made = job(matrix, verl(branch, engine))
    assert made.settings["actor_rollout_ref.rollout.name"] == rollout
    assert made.settings["++actor_rollout_ref.rollout.mode"] == mode
    assert len(made.ours) == (2 if ours else 1), "patches, and a rollout where that of the release does not work"
    assert "VLLM_PLUGINS" not in made.variables


@pytest.mark.parametrize("branch", ["v0.5.0", "v0.6.0", "v0.9.0"])
def test_samples_of_transformers_are_drawn_by_a_seeded_generator_on_the_cpu(matrix: Matrix, branch: str) -> None:
    name = verl(branch, "sglang" if branch == "v0.6.0" else "vllm")
    made, engine = (job(matrix, name, depth=depth) for depth in ("trainer", "engine"))
    assert made.variables["SMOKE_DRAWS"] == "1" and "on the CPU with seed 1;" in str(made.draws)
    # servers get the samples of a step one by one
    assert ("SMOKE_SAMPLES" in made.variables) is (branch == "v0.9.0")
    assert "SMOKE_DRAWS" not in engine.variables and "another kind of device draws other samples" in str(engine.draws)


def test_every_smoke_run_says_how_it_draws(matrix: Matrix) -> None:
    for run in matrix.smoke_runs.values():
        drawn = {(part.device, part.depth) for part in run.parts if part.draws}
        assert drawn == {(part.device, part.depth) for part in run.parts if part.rollout}, run.name


@pytest.mark.parametrize(
    ("branch", "bind", "v1"), [("v0.5.0", "all", "0"), ("v0.7.0", "all", None), ("v0.7.1", "nobind", None)]
)
def test_variables_of_an_engine_for_the_cpu_depend_on_its_release(
    matrix: Matrix, branch: str, bind: str, v1: str | None
) -> None:
    made = job(matrix, verl(branch), depth="engine")
    assert made.settings["actor_rollout_ref.rollout.name"] == "vllm"
    assert made.variables["VLLM_CPU_OMP_THREADS_BIND"] == bind
    assert made.variables.get("VLLM_USE_V1") == v1
    assert made.probability_limit == 0.0001, "in bfloat16, on an NPU, probabilities differ by more"
    assert len(made.ours) == 1


def test_changes_for_a_cpu_are_not_active_on_an_npu(matrix: Matrix) -> None:
    made = job(matrix, A3_SGLANG, device="npu", depth="engine", devices=16)
    assert "PYTHONPATH" not in made.variables and "TORCHDYNAMO_DISABLE" not in made.variables
    assert made.unset == () and made.ours == ()
    assert made.settings["actor_rollout_ref.rollout.name"] == "sglang"
    assert not any("float32" in value or "fp32" in value or value == "eager" for value in made.settings.values())
    assert made.settings["trainer.n_gpus_per_node"] == "16"
    # 64 samples on 16 devices
    assert made.settings["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu"] == "4"
    assert made.document()["resources"] == {"NPU": 16}


def test_the_engine_on_an_npu_knows_its_attention_and_its_devices(matrix: Matrix) -> None:
    """Without these settings verl selects CUDA attention in SGLang, and its server finds no devices."""
    made = job(matrix, A3_SGLANG, device=NPU, depth="engine", devices=4)
    assert made.settings["++actor_rollout_ref.rollout.engine_kwargs.sglang.attention_backend"] == "ascend"
    assert made.variables["ASCEND_RT_VISIBLE_DEVICES"] == "0,1,2,3"


def test_a_stand_in_takes_the_settings_of_an_npu_and_its_own(matrix: Matrix) -> None:
    real, rehearsed = (job(matrix, A3_SGLANG, device=device, depth="engine") for device in (NPU, STAND_IN))
    assert real.rollout == rehearsed.rollout
    assert not real.ours and rehearsed.ours
    assert real.settings.items() <= {**rehearsed.settings, **_weaker(real, rehearsed)}.items()
    assert rehearsed.settings["actor_rollout_ref.rollout.free_cache_engine"] == "False"
    assert "PYTHONPATH" not in rehearsed.variables, "the hook of the stand-in is in it"


def _weaker(real: Job, rehearsed: Job) -> dict[str, str]:
    """Return the few settings of an NPU that a stand-in replaces."""
    found = {key: value for key, value in real.settings.items() if rehearsed.settings.get(key) != value}
    assert len(found) < 3, found
    return found


def test_another_framework_takes_its_settings_as_options(matrix: Matrix) -> None:
    words = job(matrix, OPENRLHF, device="npu", depth="engine", devices=8).document()["arguments"]
    assert words[words.index("--colocate_actor_ref") + 1] == "--enforce_eager", "a switch has no value"
    assert words[words.index("--max_samples") + 1] == str(24 * 8)


@pytest.mark.parametrize("branch", ["v0.6.2", "v0.7.5"])
@pytest.mark.parametrize(("devices", "each"), [(2, 1), (3, 1), (4, 2), (6, 2), (7, 2), (8, 4), (16, 8)])
def test_models_that_cannot_share_devices_have_their_own(matrix: Matrix, branch: str, devices: int, each: int) -> None:
    made = job(matrix, OPENRLHF.replace("v0.7.5", branch), device="npu", depth="engine", devices=devices)
    settings = made.settings
    assert "colocate_all_models" not in settings, "the fork has no hybrid engine on NPUs"
    actors, engines = int(settings["actor_num_gpus_per_node"]), int(settings["vllm_num_engines"])
    assert actors == int(settings["ref_num_gpus_per_node"]) == engines == each, "reference and actor are colocated"
    assert made.document()["resources"]["NPU"] == made.devices == actors + engines <= devices
    # the first is asserted by the trainer of 0.6.2, the second by DeepSpeed
    assert int(settings["rollout_batch_size"]) % actors == 0
    assert int(settings["train_batch_size"]) == actors * int(settings["micro_train_batch_size"])


def test_obstacles_of_a_smoke_run(matrix: Matrix) -> None:
    found = environment(matrix, OPENRLHF)
    assert "needs 2 NPUs and gets 1" in (obstacle(found, NPU, 1) or "")
    assert obstacle(found, NPU, 2) is None
    assert "has no smoke run on cpu, only on npu" in (obstacle(found, CPU, 1) or "")
    bare = type(matrix)(**{name: getattr(matrix, name) for name in matrix.record_types})
    bare.__dict__["smoke_runs"] = {}
    assert obstacle(environment(bare, OPENRLHF), NPU, 8) == "OpenRLHF (Ascend fork) has no smoke run"
    rows = (verl("v0.4.0"), verl("v0.9.0"))
    assert not any(obstacle(environment(matrix, row), device, 1) for row in rows for device in (CPU, NPU))


def test_samples_are_spread_over_a_number_of_devices_that_divides_them(matrix: Matrix) -> None:
    made = job(matrix, A3_SGLANG, device="npu", depth="engine", devices=6)
    assert made.devices == int(made.settings["trainer.n_gpus_per_node"]) == 4


def test_a_later_part_wins_with_or_without_a_plus_sign(matrix: Matrix, edit: Edit) -> None:
    folder = edit(
        "smoke/verl.yaml",
        "    settings: {actor_rollout_ref.rollout.name: smoke}",
        "    settings: {++actor_rollout_ref.rollout.name: mine}",
    )
    made = job(load(folder), verl("v0.9.0"))
    names = [key for key in made.settings if key.lstrip("+") == "actor_rollout_ref.rollout.name"]
    assert names == ["++actor_rollout_ref.rollout.name"] and made.settings[names[0]] == "mine"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("'${learning_rate}'", "'${lerning_rate}'", "unknown or invalid placeholder in the settings: 'lerning_rate'"),
        (
            "    rollout: generation with transformers, behind verl's interface for rollout servers\n"
            "    ours: the rollout server\n"
            "    settings: {actor_rollout_ref.rollout.name: smoke}",
            "    settings: {}",
            "no part has a rollout for cpu at depth trainer",
        ),
    ],
)
def test_mistakes_in_a_smoke_run_are_refused(edit: Edit, old: str, new: str, words: str) -> None:
    folder = edit("smoke/verl.yaml", old, new)
    with pytest.raises(MatrixError, match=words):
        job(load(folder), verl("v0.9.0"))


def test_a_step_is_timed_where_the_framework_does_not(matrix: Matrix) -> None:
    """Otherwise the run of such a framework would not be evidence."""
    made = job(matrix, OPENRLHF, device=NPU, depth="engine", devices=2)
    values = {"reward": (0.1,) * 12, "loss": (0.1,) * 12}
    found = _training(made, Curves(tuple(range(12)), values), 30.0, [4.0, 6.0, 9.0, 11.0], Path("log"))
    assert (found.start_seconds, found.step_seconds) == (4.0, 2.0)


@pytest.mark.parametrize(
    ("rewards", "curve"),
    [((0.0, 0.5, 1.0), "▁▄█"), ((0.2, 0.2), "▁▁"), ((0.0, math.nan, 1.0, math.inf), "▁ █ "), ((math.nan,), " ")],
)
def test_a_reward_that_is_not_finite_leaves_a_gap(rewards: tuple[float, ...], curve: str) -> None:
    """The run goes on, and fails with a verdict of its own."""
    assert spark(rewards) == curve


def test_roll_trains_and_generates_on_devices_of_their_own(matrix: Matrix) -> None:
    row = environment(matrix, "roll-v0.3.0-vllm-a2-aarch64")
    on_cpu = smoke_job(row, CPU, PLACE)
    assert isinstance(on_cpu, NotRun) and "only on npu" in on_cpu.reason
    alone = smoke_job(row, STAND_IN, PLACE)
    assert isinstance(alone, NotRun) and "needs 2 NPUs" in alone.reason
    for devices, engine, samples in ((2, "list(range(1,2))", "64"), (4, "list(range(2,4))", "32")):
        settings = job(matrix, "roll-v0.3.0-vllm-a2-aarch64", device=STAND_IN, depth="engine", devices=devices).settings
        assert settings["actor_infer.device_mapping"] == engine
        assert settings["actor_train.training_args.per_device_train_batch_size"] == samples


def test_a_trainer_without_ray_gets_no_resources(matrix: Matrix) -> None:
    made = job(matrix, "ms-swift-v4.5.2-vllm-cpu-aarch64")
    document = made.document()
    assert document["trainer"] == "swift.cli.rlhf" and document["resources"] is None
    words = document["arguments"]
    assert words[words.index("--reward_funcs") + 1] == "smoke" and words[words.index("--max_steps") + 1] == "24"
    assert job(matrix, verl("v0.5.0")).document()["resources"] == {"NPU": 1}


def test_a_recipe_may_have_a_rollout_only_without_the_engine(matrix: Matrix) -> None:
    row = environment(matrix, "ms-swift-v4.5.2-vllm-cpu-aarch64")
    found = smoke_job(row, CPU, PLACE)
    assert isinstance(found, Job) and found.depth == "trainer"
    with pytest.raises(HostError, match="does not run on the CPU"):
        smoke_job(row, CPU, PLACE, depth="engine")


def test_the_engine_runs_on_a_cpu_where_it_was_compiled_for_it(matrix: Matrix) -> None:
    row = environment(matrix, verl("v0.5.0"))
    depths = [
        found.depth
        for compiled in (True, False)
        if isinstance(found := smoke_job(row, CPU, PLACE, compiled=compiled), Job)
    ]
    assert depths == ["engine", "trainer"]
    with pytest.raises(HostError, match="does not run on the CPU"):
        smoke_job(row, CPU, PLACE, depth="engine", compiled=False)


def test_modules_are_imported_with_the_variables_of_a_run(matrix: Matrix) -> None:
    """The patches let a CPU import the rollout and the server of an engine."""
    assert job(matrix, verl("v0.7.1", "sglang")).variables["PYTHONPATH"] == "/code/cpu"


def test_a_run_has_the_settings_of_one_backend(matrix: Matrix) -> None:
    row = "verl-v0.8.0-vllm-a3-aarch64"
    usual = job(matrix, row, device=STAND_IN, depth="engine")
    other = job(matrix, row, device=STAND_IN, depth="engine", backend="megatron")
    assert (usual.backend, other.backend) == (None, "megatron")
    assert usual.settings["actor_rollout_ref.actor.strategy"] == "fsdp" and "model_engine" not in usual.settings
    assert other.settings["model_engine"] == "megatron" and not any("fsdp" in name for name in other.settings)
    assert usual.other_backends == ("megatron",)
    assert other.other_backends == ("fsdp",)


@pytest.mark.parametrize(
    ("row", "device", "known"),
    [
        ("verl-v0.8.0-vllm-a3-aarch64", STAND_IN, ("fsdp", "megatron")),
        ("verl-v0.9.1-sglang-a2-aarch64", NPU, ("fsdp", "megatron")),
        # no Megatron on a CPU, in releases before it, or in other frameworks
        ("verl-v0.8.0-vllm-cpu-aarch64", CPU, ("fsdp",)),
        ("verl-v0.5.0-vllm-a2-aarch64", NPU, ("fsdp",)),
        (OPENRLHF, NPU, ()),
    ],
)
def test_backends_of_a_row(matrix: Matrix, row: str, device: Device, known: tuple[str, ...]) -> None:
    assert backends(environment(matrix, row), device, "engine") == known
