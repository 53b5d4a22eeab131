"""Logs and metric files as compare reads them: real ones if the samples are present, and generated ones."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from envbuilder.errors import UsageError
from envbuilder.trainlog import read_log, read_path, read_steps
from envbuilder.trainlog.events import masked
from tests.helpers.corpus import Sample, samples
from tests.helpers.training_logs import LOSS, REWARD, console, events, jsonl, record, run, table

SERIES = {LOSS: [0.5, -0.25, 0.125], REWARD: [0.25, 0.5, 0.75]}
WANTED = {name: dict(enumerate(values, 1)) for name, values in SERIES.items()}


@pytest.mark.parametrize("sample", samples("logs"), ids=lambda sample: sample.name)
def test_real_logs(sample: Sample) -> None:
    log = read_log(sample.text.encode())
    numbers, metrics = sample.truth.get("steps", []), {k: v for k, v in sample.truth.items() if k != "steps"}
    assert [step.number for step in log.steps] == numbers
    for name, values in metrics.items():
        found = [step.metrics[name] for step in log.steps if name in step.metrics]
        assert (found if numbers else [log.means[name]]) == values, name


@pytest.mark.parametrize(
    "content",
    [
        console(SERIES),
        "\ufeff" + jsonl(SERIES),
        table(SERIES),
        table(SERIES).replace(",", ";"),
        table(SERIES).replace(",", "\t").replace("step", "Step", 1),
        events(SERIES),
        events(SERIES, tensors=True),
    ],
    ids=["console", "jsonl", "csv", "semicolons", "tabs", "events", "tensors"],
)
def test_every_format_gives_the_same_values(content: str | bytes) -> None:
    values = run(content).values
    assert {name: values[name] for name in SERIES} == WANTED


def test_a_step_is_found_among_prefixes_and_colours_of_a_console() -> None:
    log = (
        "Training Progress:  50%|#####     | 1/2 [00:12<00:12, 12.0s/it]\r"
        f"\x1b[36m(TaskRunner pid=7)\x1b[0m [2031-01-02 03:04:05,678] [INFO] step:0 - val-core/x/reward/mean@1:0.4\n"
        f"\x1b[36m(TaskRunner pid=7)\x1b[0m step:1 - {LOSS}:np.float32(5.0E-01) - {REWARD}:np.float64(.25) - a/mfu:0.0"
        " [repeated 2x across cluster]\n"
    )
    values = run(log).values
    assert (values[LOSS], values[REWARD]) == ({1: 0.5}, {1: 0.25})
    assert values["val-core/x/reward/mean@1"] == {0: 0.4}


@pytest.mark.parametrize("width", range(24, 120))
def test_a_line_that_was_wrapped_at_any_column(width: int) -> None:
    """After the last number, the next line may or may not belong to it."""
    line = f"step:12 - actor/entropy:np.float64(0.4125) - {LOSS}:-0.0625 - {REWARD}:1.5e-02 - perf/throughput:246.125 - z:1"
    wrapped = "\n".join(line[at : at + width] for at in range(0, len(line), width))
    (step,) = read_steps(f"{wrapped}\n(WorkerDict pid=8) 7474\n")
    wanted = {"actor/entropy": 0.4125, LOSS: -0.0625, REWARD: 0.015, "perf/throughput": 246.125}
    assert {name: step.metrics.get(name) for name in wanted} == wanted


def test_a_number_on_the_next_line_is_not_part_of_the_last_one() -> None:
    first, second = read_steps(
        f"step:1 - {REWARD}:0.5\n7474\nstep:2 - {REWARD}:0.6 - {LOSS}:1\n- other\nstep:3 - z:1\n"
    )[:2]
    assert (first.metrics, second.metrics) == ({REWARD: 0.5}, {REWARD: 0.6, LOSS: 1})


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_cut_log_has_no_number_that_was_not_written(cut: int) -> None:
    whole = f"step:1 - {REWARD}:0.52125 - {LOSS}:0.25\n"
    for step in read_steps(whole[:-cut]):
        assert step.metrics.items() <= {REWARD: 0.52125, LOSS: 0.25}.items()


def test_a_cut_name_does_not_swallow_the_next_step() -> None:
    steps = read_steps(f"step:1 - {REWARD}:0.5 - actor/pg\nstep:2 - {REWARD}:0.6\n")
    assert [(step.number, dict(step.metrics)) for step in steps] == [(1, {REWARD: 0.5}), (2, {REWARD: 0.6})]


def test_dictionaries_and_bars_of_openrlhf() -> None:
    (step,) = read_steps("Global step 3: {'policy_loss': tensor(-0.5), 'reward': np.float64(0.25),\n 'kl': 1e-4}\n")
    assert step == (3, {"policy_loss": -0.5, "reward": 0.25, "kl": 1e-4})


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_the_step_of_a_progress_bar_is_found(cut: int) -> None:
    """A bar is drawn with the metrics of a step before and after it counts the step. Equal numbers in two steps, and a
    log that begins late or ends early, shift no step."""
    losses = [2.5, 2.5, 2.25, 2.5, 2.0, 2.0]
    bar = "Train step of epoch {0}:  9%|#  | {1}/3 [00:01<00:09, 1.0s/it, gpt_loss={2}, loss_mean=0.9, lr=1e-6]"
    drawn = []
    for number, loss in enumerate(losses):
        epoch, done = divmod(number, 3)
        drawn += [bar.format(epoch, done, loss), bar.format(epoch, done + 1, loss)]
    found = {step.number: step.metrics["gpt_loss"] for step in read_steps("\r".join(drawn[cut : len(drawn) - cut]))}
    assert found.items() <= dict(enumerate(losses, 1)).items() and len(found) >= 4


def test_text_that_looks_like_a_step_does_not_hide_the_bars() -> None:
    bar = "Episode [1/1]:  0%|  | 0/4 [00:01<00:09, 1.0s/it, policy_loss=-0.1, reward=0.5]"
    (step,) = read_steps(f"let us think step by step:1. First\n{bar}\r")
    assert step == (1, {"policy_loss": -0.1, "reward": 0.5})


@pytest.mark.parametrize("odd", ["val-core/AIME 2024/acc/mean@1:0.4", "flag:True", "val-core/MATH:500/acc:0.25", "x:"])
def test_a_pair_that_cannot_be_read_hides_no_other(odd: str) -> None:
    (step,) = read_steps(f"(TaskRunner pid=7) step:5 - a/b:1 - {odd} - {REWARD}:5.0 - {LOSS}:0.25\n")
    assert {"a/b": 1, REWARD: 5, LOSS: 0.25}.items() <= step.metrics.items()
    assert set(step.metrics) - {"a/b", REWARD, LOSS} <= {"val-core/AIME 2024/acc/mean@1", "val-core/MATH:500/acc"}


def test_rows_without_a_step_and_lines_that_are_not_json() -> None:
    text = f'{{"step": NaN, "{REWARD}": 0.1}}\n{{"step": 1, "{REWARD}": 0.5}},\n{{"step": 2,,\n{{"step": 3, "{REWARD}": 0.6}}\n'
    log = read_log(text.encode())
    assert [(step.number, step.metrics[REWARD]) for step in log.steps] == [(1, 0.5), (3, 0.6)] and log.unread == 1
    assert read_log(b"step," + b"x" * 200_000 + b"\n1,2\n").steps == ()


def test_a_table_of_two_runs_is_refused() -> None:
    text = f'"Step","npu-run - {REWARD}","gpu-run - {REWARD}"\n"1","0.9","0.1"\n'
    with pytest.raises(UsageError, match=f"{REWARD} of several runs: npu-run - {REWARD}, gpu-run"):
        read_log(text.encode())


def test_json_lines_that_are_flat_and_cut_off() -> None:
    text = json.dumps({"train/global_step": 4, REWARD: 0.5, "note": "x", "flag": True, "none": None})
    (step,) = read_log(f'{text}\n{{"train/global_step": 5, "{REWARD}": 0.'.encode()).steps
    assert step == (4, {"train/global_step": 4, REWARD: 0.5})


def test_nan_is_read_as_nan() -> None:
    (step,) = read_log(f'{{"step": 1, "{REWARD}": NaN}}\n'.encode()).steps
    assert math.isnan(step.metrics[REWARD])


def test_the_table_that_a_tracker_exports() -> None:
    text = f'"Step","my-run - {REWARD}","my-run - {REWARD}__MIN","my-run - {REWARD}__MAX"\n"1","0.5","0.1","0.9"\n"2","","",""\n'
    first, second = read_log(text.encode()).steps
    assert (first.metrics[REWARD], REWARD in second.metrics) == (0.5, False)
    assert not any("__M" in name for name in first.metrics)


def test_the_checksum_is_the_one_of_the_format() -> None:
    """CRC-32C of the digits is published as e3069283; the mask is a rotation and an addition."""
    crc = 0xE3069283
    assert masked(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@pytest.mark.parametrize("damage", ["cut", "flipped"])
def test_an_event_file_is_read_up_to_the_damage(damage: str) -> None:
    content = events(SERIES)
    broken = content[:-3] if damage == "cut" else content[:-20] + bytes([content[-20] ^ 1]) + content[-19:]
    values = run(broken).values
    assert (values[LOSS], values[REWARD]) == (WANTED[LOSS], {1: 0.25, 2: 0.5})


@pytest.mark.parametrize("message", [b"\x10", b"\x2a\xff\x01", b"\x0b", b"\x2a\x03\x0a\x01\x15"])
def test_an_invalid_message_has_no_steps(message: bytes) -> None:
    assert read_log(record(message)).steps == ()


def test_a_folder_of_event_files(tmp_path: Path) -> None:
    for number, name in enumerate(SERIES):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "events.out.tfevents.1.host").write_bytes(events({name: SERIES[name]}))
    (tmp_path / "notes.txt").write_text(console({REWARD: [9.0]}), encoding="utf-8")
    # a writer that was restarted
    name = next(iter(SERIES))
    (tmp_path / "0" / "events.out.tfevents.2.host").write_bytes(events({name: SERIES[name]}))
    found = {(step.number, *step.metrics.items()) for step in read_path(tmp_path).steps}
    assert found == {(at, (name, value)) for name, values in WANTED.items() for at, value in values.items()}


def test_a_folder_of_several_runs_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "events.out.tfevents.1.host").write_bytes(events({REWARD: [0.5, 0.6]}))
    with pytest.raises(UsageError, match=r"several runs: .*a and .*b"):
        read_path(tmp_path)


def test_a_number_of_hundreds_of_digits_is_left_out() -> None:
    assert read_log(f'{{"step": 1, "a": {"9" * 400}, "b": 1}}'.encode()).steps == ((1, {"step": 1, "b": 1}),)


@pytest.mark.parametrize("text", ["", "no steps at all\n", "a: 1\nbut this is prose\n", "{}\n", "step,x\n"])
def test_files_without_metrics(text: str) -> None:
    log = read_log(text.encode())
    assert (log.steps, log.means) == ((), {})


def test_a_baseline() -> None:
    assert read_log(f"{REWARD}:-0.85\n\nperf/throughput: np.float64(1e2)\n".encode()).means == {
        REWARD: -0.85,
        "perf/throughput": 100,
    }
