"""Lets the engine and transformers answer the same prompts greedily, and prints the tokens of both.

    python tokens.py JOB.json

The job is that of the smoke run. Here the engine runs without the framework, so that its tokens depend on nothing else.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

from assets import make_assets

_ANSWERS, _TOKENS = 16, 12
# the heads of the model, which tensor parallelism divides
_HEADS = 2


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    for name in job["unset"]:
        os.environ.pop(name, None)
    folder = Path(job["folder"])
    make_assets(folder, **job["assets"])
    model = str(folder / "model")
    prompts = _prompts(folder)
    wanted = _by_transformers(model, prompts)
    engine = importlib.import_module(f"{job['engine']}_tokens")
    found = engine.generate(model, prompts, _TOKENS, min(job["devices"], _HEADS))
    # a line of its own among those of the engine
    sys.stdout.write(f"\n{json.dumps({'wanted': wanted, 'found': found})}\n")


def _prompts(folder: Path) -> list[list[int]]:
    """Return prompts of several lengths, which fill one block of a cache, a part of it, or more."""
    import pandas
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder / "model")
    rows = pandas.read_parquet(folder / "test.parquet")["prompt"][:_ANSWERS]
    return [list(tokenizer.encode(row[0]["content"] * (1 + 3 * (number % 3)))) for number, row in enumerate(rows)]


def _by_transformers(model: str, prompts: list[list[int]]) -> list[list[int]]:
    import torch
    from transformers import AutoModelForCausalLM

    trusted = AutoModelForCausalLM.from_pretrained(model, torch_dtype=torch.float32, attn_implementation="eager").eval()
    answers = []
    for prompt in prompts:
        whole = trusted.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            max_new_tokens=_TOKENS,
            do_sample=False,
            eos_token_id=None,
            pad_token_id=0,
        )
        answers.append(whole[0, len(prompt) :].tolist())
    return answers


# engines start processes, which import this file again
if __name__ == "__main__":
    main()
