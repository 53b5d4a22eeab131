"""Patches of SGLang, which has its own code for a CPU without kernels, but does not always use it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

from patching import REPLACED, after_import, await_samples, wrapping

# SGLang 0.5.3 to 0.5.6 takes layers of vLLM wherever it has no kernels: `No module named 'vllm'`, after which it uses
# the model of transformers. It has all of these layers itself, above the import.
REPLACED["sglang.srt.layers.activation"] = (
    "from vllm.model_executor.layers.activation import", "from sglang.srt.layers.activation import",
)  # fmt: skip
REPLACED["sglang.srt.layers.layernorm"] = (
    "from vllm.model_executor.layers.layernorm import", "from sglang.srt.layers.layernorm import",
)  # fmt: skip
REPLACED["sglang.srt.layers.rotary_embedding"] = (
    "from vllm._custom_ops import rotary_embedding", "rotary_embedding = None",
)  # fmt: skip

# in place of what verl or SGLang chooses and a CPU does not have: flash attention, graphs, a saver of device memory
_SETTINGS = {
    "device": "cpu",
    "attention_backend": "torch_native",
    "mm_attention_backend": None,
    "sampling_backend": "pytorch",
    "grammar_backend": "none",
    "disable_cuda_graph": True,
    "disable_overlap_schedule": True,
    "enable_memory_saver": False,
    "max_total_tokens": 8192,
    # otherwise SGLang takes another seed in each run
    "random_seed": 1,
}


@after_import("triton.runtime.driver")
def no_driver(driver: Any) -> None:
    """`0 active drivers ([]). There should only be one.` when a kernel is declared that is tuned at its first use."""

    class Driver:
        def get_benchmarker(self) -> Callable[..., Any]:
            def benchmark(*_: Any, **__: Any) -> Any:
                raise RuntimeError("triton has no device to run a kernel on")

            return benchmark

    driver.driver.set_active(Driver())


@after_import("sglang.srt.server_args")
def cpu_server(server_args: Any) -> None:
    """`No accelerator (CUDA, XPU, HPU, NPU) is available`; verl 0.6 does not pass on the settings of a user."""
    known = server_args.ServerArgs.__dataclass_fields__

    @wrapping(server_args.ServerArgs, "__post_init__")
    def post_init(original: Any, self: Any) -> None:
        for name in known.keys() & _SETTINGS.keys():
            setattr(self, name, _SETTINGS[name])
        original(self)


@after_import("sglang.srt.patch_torch", "sglang.srt.utils.patch_torch")
def plain_tensors(patch_torch: Any) -> None:
    """`IndexError: tuple index out of range` when weights are sent: it looks for the number of a device in a tensor."""
    patch_torch.monkey_patch_torch_reductions = lambda: None


@after_import("sglang.srt.utils", "sglang.srt.utils.common")
def one_family(_: Any) -> None:
    """`AuthenticationError: digest sent was rejected` where the server is not a child of the trainer: a tensor of a CPU
    is sent as an open file, which only processes with the same key may get. (By name, `file_system`, it fails under
    load: `Shared memory manager connection has timed out`.)"""
    multiprocessing.current_process().authkey = b"smoke"


@after_import("sglang.srt.model_executor.model_runner")
def no_threads(runner: Any) -> None:
    """SGLang 0.5.8 and later: `'_OpNamespace' 'sgl_kernel' object has no attribute 'init_cpu_threads_env'`: on Arm it
    binds threads with its own kernels."""
    runner._is_cpu_arm64 = False


@after_import("sglang.srt.managers.scheduler")
def whole_steps(scheduler: Any) -> None:
    """Not a failure: with one seed each run had other samples, as SGLang computes together what has arrived."""

    @wrapping(scheduler.Scheduler, "recv_requests")
    def recv_requests(original: Any, self: Any) -> Any:
        found = original(self)
        if self.running_batch.is_empty() and not self.waiting_queue and any(map(_prompt, found)):

            def receive() -> bool:
                more = original(self)
                found.extend(more)
                return bool(more)

            await_samples(lambda: sum(map(bool, map(_prompt, found))), receive)
            found.sort(key=_prompt)
        return found


def _prompt(request: Any) -> list[int]:
    """Return the tokens of a request; a request for something else than a sample has none."""
    return list(getattr(request, "input_ids", None) or ())
