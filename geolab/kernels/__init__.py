"""The Triton twin of an operator: same name, same signature, one pass over the state forward and one back.

Operators hand over to their twins by device and dtype, and nothing else: see `serves`.

On a CPU the same kernels run in Triton's interpreter (of version 3.7), slowly, for tests and for a look inside: set the environment
variable TRITON_INTERPRET to 1 before geolab is imported, then

    with kernels.use("always"):
        stream_read(x, weights)
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec

import torch
from torch import Tensor

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
MODES = ("auto", "always", "never")
MODULES = {"cayley": ("cayley_rank2", "cayley_skew4"), "delta": ("delta_update", "diagonal_update"), "gated": ("gated_mix",),
           "generate": ("rms_linear",), "sinkhorn": ("sinkhorn",), "streams": ("stream_mix", "stream_mix_write", "stream_read")}

_mode = "auto"


def _usable() -> bool:
    """Whether there is a Triton of at least version 3.4, and something to run it on."""
    if find_spec("triton") is None or not (torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1"):
        return False
    return tuple(int(part) for part in import_module("triton").__version__.split(".")[:2]) >= (3, 4)


TWINS: dict[str, Callable] = {name: getattr(import_module(f"geolab.kernels.{module}"), name)
                              for module, names in MODULES.items() for name in names} if _usable() else {}  # by operator


@contextmanager
def use(mode: str) -> Iterator[None]:
    """Inside, operators take their kernels "always", "never", or, as outside, on CUDA devices ("auto").

    "never" has second derivatives, which kernels don't. "always" on CPU tensors needs Triton's interpreter.
    Raises: ValueError for another mode; RuntimeError for "always" where nothing can run a kernel.
    """
    global _mode
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(map(repr, MODES))}, got {mode!r}")
    if mode == "always" and not TWINS:
        raise RuntimeError("mode 'always' needs Triton 3.4 or later, and a CUDA device or TRITON_INTERPRET=1 in the environment "
                           "before geolab is imported")
    before, _mode = _mode, mode
    try:
        yield
    finally:
        _mode = before


def serves(x: Tensor) -> bool:
    """Whether an operator on the state x takes its kernel: float32, bfloat16 or float16, on a CUDA device, where Triton is installed."""
    if _mode == "auto":
        return x.is_cuda and x.dtype in DTYPES and bool(TWINS)
    return _mode == "always" and x.dtype in DTYPES
