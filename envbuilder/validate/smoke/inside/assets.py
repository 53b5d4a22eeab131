"""Makes a tiny model, its tokenizer and a data set of sums for the smoke run: offline, and equal for equal seeds.

Every sum is the same number: a random model cannot learn to add within the steps, but it learns which answer is right.

Runs inside the environment that is validated, and uses only its packages.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

_CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_END, _START, _PAD = "<|im_end|>", "<|im_start|>", "<|endoftext|>"
_PEOPLE, _THINGS = ("Ann", "Bob", "Cai", "Dee"), ("apples", "pens", "coins", "books")
_SUM = 7
_INSTRUCTION = ' Give the answer after "####".'


def make_assets(folder: Path, *, seed: int, train_rows: int, test_rows: int) -> None:
    """Write a model and its data into a folder; `train.jsonl` has the rows of `train.parquet`."""
    chance = random.Random(seed)  # noqa: S311
    train, test = ([_sum(chance) for _ in range(rows)] for rows in (train_rows, test_rows))
    tokenizer = _make_tokenizer([question + answer for question, answer in (*train, *test)])
    tokenizer.save_pretrained(folder / "model")
    _make_model(tokenizer, seed).save_pretrained(folder / "model")
    _write(folder / "train.parquet", "train", train)
    _write(folder / "test.parquet", "test", test)
    _write_lines(folder / "train.jsonl", train)


def _sum(chance: random.Random) -> tuple[str, str]:
    one = chance.randint(1, _SUM - 1)
    question = f"{chance.choice(_PEOPLE)} has {one} {chance.choice(_THINGS)} and gets {_SUM - one} more. How many now?"
    return question + _INSTRUCTION, str(_SUM)


def _make_tokenizer(texts: list[str]):  # type: ignore[no-untyped-def]  # a class of the environment
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=384, special_tokens=[_PAD, _START, _END], initial_alphabet=sorted(alphabet), show_progress=False
    )
    tokenizer.train_from_iterator([*texts, "system user assistant\n"], trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=_END, pad_token=_PAD, padding_side="left", model_max_length=2048,
        model_input_names=["input_ids", "attention_mask"],
    )  # fmt: skip
    fast.chat_template = _CHAT_TEMPLATE
    return fast


def _make_model(tokenizer, seed: int):  # type: ignore[no-untyped-def]
    """Return a model of two layers, with heads of 64 because engines refuse smaller ones."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(tokenizer), hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=2048, tie_word_embeddings=False,
        pad_token_id=tokenizer.pad_token_id, bos_token_id=tokenizer.convert_tokens_to_ids(_START),
        eos_token_id=tokenizer.eos_token_id,
    )  # fmt: skip
    model = Qwen2ForCausalLM(config)
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    return model


def _write_lines(path: Path, rows: list[tuple[str, str]]) -> None:
    # ROLL sorts rows by their tag
    records = (
        {"messages": [{"role": "user", "content": question}], "answer": answer, "tag": "smoke"}
        for question, answer in rows
    )
    path.write_text("".join(json.dumps(item) + "\n" for item in records), encoding="utf-8")


def _write(path: Path, split: str, rows: list[tuple[str, str]]) -> None:
    import pandas

    records = [
        {
            "data_source": "openai/gsm8k",
            "prompt": [{"role": "user", "content": question}],
            "answer": answer,
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": answer},
            "extra_info": {"split": split, "index": number, "answer": answer, "question": question},
        }
        for number, (question, answer) in enumerate(rows)
    ]
    pandas.DataFrame(records).to_parquet(path)
