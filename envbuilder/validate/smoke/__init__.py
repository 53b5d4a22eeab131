"""The smoke run: a real GRPO training of a tiny model, small enough for a machine without an accelerator."""
