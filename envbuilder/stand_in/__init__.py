"""A stand-in of the vendor's toolkit, CANN: libraries over host memory, generated from what torch_npu needs.

`inside/` is the code that runs where torch_npu is installed: it makes a folder like an installed toolkit, and its hook
lets torch's CPU kernels compute behind device `npu`. It proves that an environment fits together, not that it computes
on an NPU.
"""

from envbuilder.stand_in.spec import HOOK, INSIDE, Spec, lay_out, spec_of

__all__ = ["HOOK", "INSIDE", "Spec", "lay_out", "spec_of"]
