"""Triton twins of the operators: the same name and equation, one pass over the state forward and
one back.

An operator checks its arguments, asks `serves` whether device and dtype have a kernel, and hands
over to its twin.

On a CPU the same kernels run in Triton's interpreter (of version 3.7), slowly, for tests and for a
look inside: set the environment variable TRITON_INTERPRET to 1 before geolab is imported, then

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

from geolab.checks import require_option

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
MODES = ("auto", "always", "never")
# a thread holds n² numbers in registers; with more streams, operators do without kernels
MOST_STREAMS = 8
MOST_OUTPUTS = 128  # of `rms_linear`; for more, a product of its own is the better choice

_mode = "auto"


@contextmanager
def use(mode: str) -> Iterator[None]:
    """Inside, operators take their kernels "always", "never", or, as outside, on CUDA devices
    ("auto").

    Second derivatives need "never": kernels have none. "always" on CPU tensors needs Triton's
    interpreter.
    Raises: ValueError for another mode; RuntimeError for "always" where nothing can run a kernel.
    """
    global _mode
    require_option("mode", mode, MODES)
    if mode == "always" and not TWINS:
        raise RuntimeError("mode 'always' needs Triton 3.4 or later, and a CUDA device or "
                           "TRITON_INTERPRET=1 in the environment before geolab is imported")
    before, _mode = _mode, mode
    try:
        yield
    finally:
        _mode = before


def serves(x: Tensor, streams: int = 1) -> bool:
    """Whether an operator on the state x, with so many streams, takes its kernel.

    It does for float32, bfloat16 and float16 on a CUDA device where Triton is installed.
    """
    if _mode == "never" or x.dtype not in DTYPES or streams > MOST_STREAMS:
        return False
    return _mode == "always" or (x.is_cuda and bool(TWINS))


def _twins() -> dict[str, Callable]:
    """The kernels by operator, if there is a Triton of at least version 3.4 and something to run it
    on.
    """
    if find_spec("triton") is None or not (torch.cuda.is_available()
                                           or os.environ.get("TRITON_INTERPRET") == "1"):
        return {}
    if tuple(map(int, import_module("triton").__version__.split(".")[:2])) < (3, 4):
        return {}
    return import_module("geolab.kernels.twins").TWINS


TWINS = _twins()
