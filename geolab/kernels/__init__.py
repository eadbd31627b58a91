"""The Triton twin of an operator: same name, same signature, one pass over the state forward and one back.

Operators hand over to their twins by device and dtype, and nothing else: see `serves`.

On a CPU the same kernels run in Triton's interpreter, slowly, for tests and for a look inside: set the environment variable
TRITON_INTERPRET to 1 before geolab is imported, then

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
MODULES = {"streams": ("stream_read",)}

_mode = "auto"
_needed = torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1"
TWINS: dict[str, Callable] = {}  # by the name of the operator; empty without Triton, and where nothing could run it
if _needed and find_spec("triton"):
    for _module, _names in MODULES.items():
        TWINS |= {name: getattr(import_module(f"geolab.kernels.{_module}"), name) for name in _names}


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
        raise RuntimeError("mode 'always' needs Triton, and a CUDA device or TRITON_INTERPRET=1 in the environment before geolab is imported")
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
