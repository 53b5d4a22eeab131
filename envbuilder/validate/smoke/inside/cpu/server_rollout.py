"""A rollout with transformers for verl 0.7 and later, which only has servers of engines.

It is as small as verl's interface allows: `Server` is a Ray actor that generates and loads weights, `Sender` sends
them from the trainer, and `Replica` starts the actor.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any, NamedTuple

import ray
import torch
from draws import drawn_on_the_cpu
from patching import PATIENCE, SAMPLES
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutMode, RolloutReplica, TokenOutput

# seconds to wait for further requests, which are then generated together
_GATHER = 0.05


def _server_name(replica: int) -> str:
    return f"smoke-rollout-{replica}"


class _Sampling(NamedTuple):
    """The parameters that must be equal for requests to be generated together."""

    temperature: float
    top_p: float
    top_k: int
    tokens: int


class _Request(NamedTuple):
    prompt: list[int]
    sampling: _Sampling
    answer: asyncio.Future[tuple[list[int], list[float]]]


class Server:
    def __init__(self, path: str, response_tokens: int, workers: list[Any], in_trainer: bool) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        torch.set_num_threads(1)
        torch.manual_seed(0)
        tokenizer = AutoTokenizer.from_pretrained(path)
        self._end, self._pad = tokenizer.eos_token_id, tokenizer.pad_token_id
        self._model = AutoModelForCausalLM.from_pretrained(
            path, dtype=torch.float32, attn_implementation="eager"
        ).eval()
        self._response_tokens, self._workers, self._in_trainer = response_tokens, workers, in_trainer
        self._global_steps: int | None = None
        self._waiting: list[_Request] = []
        self._generating: asyncio.Task[None] | None = None

    async def ready(self) -> None:
        pass

    async def load(self, weights: dict[str, Any], global_steps: int | None) -> None:
        self._model.load_state_dict(weights, strict=True)
        self._global_steps = global_steps

    async def set_global_steps(self, global_steps: int) -> None:
        self._global_steps = global_steps

    async def wake_up(self, *_: Any, **__: Any) -> None:
        """Make the workers of the trainer send their weights, which verl 0.7.0 expects of the server."""
        await self._call_workers("wake_up")

    async def sleep(self, *_: Any, **__: Any) -> None:
        await self._call_workers("sleep")

    async def _call_workers(self, method: str) -> None:
        able = [worker for worker in self._workers if self._in_trainer and hasattr(worker, method)]
        await asyncio.gather(*(getattr(worker, method).remote() for worker in able))

    async def _nothing(self, *_: Any, **__: Any) -> dict[str, Any]:
        return {"aborted_count": 0, "request_ids": []}

    clear_kv_cache = release_kv_cache = resume_kv_cache = wait_for_requests_to_drain = _nothing
    abort_all_requests = abort_request = resume_generation = start_profile = stop_profile = _nothing

    async def generate(self, prompt_ids: Any, sampling_params: Any, request_id: str, **_: Any) -> TokenOutput:
        tokens = sampling_params.get("max_tokens") or sampling_params.get("max_new_tokens") or self._response_tokens
        sampling = _Sampling(
            sampling_params.get("temperature", 1.0), sampling_params.get("top_p", 1.0),
            max(sampling_params.get("top_k", 0), 0), tokens,
        )  # fmt: skip
        request = _Request(list(prompt_ids), sampling, asyncio.get_running_loop().create_future())
        self._waiting.append(request)
        if self._generating is None or self._generating.done():
            self._generating = asyncio.create_task(self._generate_waiting())
        ids, log_probs = await request.answer
        more = (
            {"extra_fields": {"global_steps": self._global_steps}} if "extra_fields" in TokenOutput.model_fields else {}
        )
        return TokenOutput(token_ids=ids, log_probs=log_probs, stop_reason="completed", **more)

    async def _gathered(self) -> None:
        """Wait until all samples of a step were requested, or no more come, as those of one call share the draws."""
        known, last = 0, time.monotonic()
        await asyncio.sleep(_GATHER)
        while len(self._waiting) < SAMPLES and time.monotonic() - last < PATIENCE:
            if len(self._waiting) > known:
                known, last = len(self._waiting), time.monotonic()
            await asyncio.sleep(_GATHER)

    async def _generate_waiting(self) -> None:
        await self._gathered()
        while self._waiting:
            sampling = self._waiting[0].sampling
            # the order of arrival differs from run to run
            batch = sorted((item for item in self._waiting if item.sampling == sampling), key=lambda item: item.prompt)
            self._waiting = [request for request in self._waiting if request.sampling != sampling]
            try:
                self._generate(batch, sampling)
            except Exception as error:
                for request in batch:
                    request.answer.set_exception(error)
            await asyncio.sleep(0)

    def _generate(self, batch: list[_Request], sampling: _Sampling) -> None:
        length = max(len(request.prompt) for request in batch)
        padding = [length - len(request.prompt) for request in batch]
        ids = [[self._pad] * pad + request.prompt for pad, request in zip(padding, batch, strict=True)]
        mask = [[0] * pad + [1] * (length - pad) for pad in padding]
        how: dict[str, Any] = {"do_sample": bool(sampling.temperature)}
        if sampling.temperature:
            how |= {"temperature": sampling.temperature, "top_p": sampling.top_p, "top_k": sampling.top_k}
        # generate() itself turns gradients off
        with drawn_on_the_cpu():
            made = self._model.generate(
                input_ids=torch.tensor(ids), attention_mask=torch.tensor(mask), max_new_tokens=sampling.tokens,
                pad_token_id=self._pad, eos_token_id=self._end, return_dict_in_generate=True, output_logits=True, **how,
            )  # fmt: skip
        logits = torch.stack(made.logits, 1).float() / (sampling.temperature or 1.0)
        log_probs = torch.log_softmax(logits, -1)
        for row, request in enumerate(batch):
            tokens = made.sequences[row, length:].tolist()
            count = tokens.index(self._end) + 1 if self._end in tokens else len(tokens)
            scores = [log_probs[row, place, tokens[place]].item() for place in range(count)]
            request.answer.set_result((tokens[:count], scores))


class Sender(BaseRollout):
    """The part in the trainer, which sends the weights to the server."""

    def __init__(
        self, config: Any, model_config: Any, device_mesh: Any = None, replica_rank: int = -1, **_: Any
    ) -> None:
        super().__init__(config, model_config, device_mesh)
        self.sleep_level = 1
        self._replica = replica_rank if replica_rank >= 0 else int(os.environ.get("RANK", "0"))

    async def resume(self, tags: Any) -> None:
        pass

    async def release(self) -> None:
        pass

    async def update_weights(self, weights: Any, global_steps: int | None = None, **_: Any) -> None:
        if hasattr(weights, "__aiter__"):
            found = {name: tensor.detach().cpu().float().clone() async for name, tensor in weights}
        else:
            found = {name: tensor.detach().cpu().float().clone() for name, tensor in weights}
        # the variable keeps the handle: older Ray loses an actor without one, `Lost reference to actor`
        server = ray.get_actor(_server_name(self._replica))
        await server.load.remote(found, global_steps)

    def get_zeromq_address(self) -> None:
        return None


class Replica(RolloutReplica):
    def get_ray_class_with_init_args(self) -> Any:
        raise NotImplementedError("the server is started by launch_servers")

    async def launch_servers(self) -> None:
        path = getattr(self.model_config, "local_path", None) or self.model_config.path
        in_trainer = self.rollout_mode == RolloutMode.HYBRID
        options = {"name": _server_name(self.replica_rank), "max_concurrency": 1000, "num_cpus": 0.1}
        server = ray.remote(Server).options(**options)
        handle = server.remote(path, self.config.response_length, self.workers, in_trainer)
        await handle.ready.remote()
        self.servers.append(handle)
        self._server_handle, self._server_address = handle, "127.0.0.1:0"
