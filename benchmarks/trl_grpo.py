"""Runs the task of the smoke run with only TRL's GRPOTrainer, as the lower bound of its time.

    python trl_grpo.py FOLDER RECIPE.json

It runs in its own virtual environment and prints the rewards and the time of the first step as JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

BEGAN = time.perf_counter()


def main() -> None:
    folder, recipe = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    sys.path.insert(0, recipe["code"])
    from assets import make_assets
    from reward import compute_score

    make_assets(folder, **recipe["assets"])

    import pandas
    import torch
    from datasets import Dataset
    from transformers import AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    torch.set_num_threads(1)
    table = pandas.read_parquet(folder / "train.parquet")
    rows = [{"prompt": [dict(item) for item in row.prompt], "answer": row.answer} for row in table.itertuples()]

    def reward(completions: list[Any], answer: list[str], **_: Any) -> list[float]:
        return [compute_score("", item[0]["content"], right) for item, right in zip(completions, answer, strict=True)]

    first: list[float] = []

    class Watch(TrainerCallback):
        def on_step_end(self, *_: Any, **__: Any) -> None:
            if not first:
                first.append(time.perf_counter() - BEGAN)

    samples = recipe["prompts_per_step"] * recipe["samples_per_prompt"]
    settings = GRPOConfig(
        output_dir=str(folder / "out"), use_cpu=True, bf16=False, per_device_train_batch_size=samples,
        num_generations=recipe["samples_per_prompt"], max_completion_length=recipe["response_tokens"],
        max_prompt_length=recipe["prompt_tokens"], learning_rate=float(recipe["learning_rate"]),
        lr_scheduler_type="constant", max_steps=recipe["steps"], logging_steps=1, beta=float(recipe["kl_coefficient"]),
        save_strategy="no", report_to=[], temperature=1.0, gradient_checkpointing=False, disable_tqdm=True,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model=str(folder / "model"), processing_class=AutoTokenizer.from_pretrained(folder / "model"),
        reward_funcs=reward, args=settings, train_dataset=Dataset.from_list(rows), callbacks=[Watch()],
    )  # fmt: skip
    trainer.train()
    rewards = [item["reward"] for item in trainer.state.log_history if "reward" in item]
    print("\n" + json.dumps({"rewards": rewards, "first": first[0]}))


if __name__ == "__main__":
    main()
