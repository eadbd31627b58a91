"""Triton twins of the operators, with the same names and equations.

A twin reads the state once in the forward pass, and once in the backward pass. An operator checks
its arguments, asks `serves` whether there is a kernel for this device and dtype, and if so calls
its twin.

On a CPU the same kernels run in the interpreter of Triton 3.7. It is slow, but useful for tests and
for a look inside. Set the environment variable TRITON_INTERPRET to 1 before you import geolab, then

    with kernels.use("always"):
        stream_read(x, weights)
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from geolab.checks import require_option

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
MODES = ("auto", "always", "never")
# A thread holds n² numbers in registers. With more streams than this, operators use no kernels.
MOST_STREAMS = 8
# The streams that one backward pass takes through a read, a generator and a write. With four of
# them it spills 24 bytes per thread on Hopper and none on Blackwell. Of more streams that are mixed
# the gradient is written before the write's own pass: see `wide`.
MOST_JOINED = 4
# The bytes of shared memory of a joined program. Hopper and the large Blackwell GPUs have so much;
# an A100, smaller GPUs and those of AMD don't, and get one kernel after the other.
SHARED_JOINED = 212 * 2**10
# The features of a stream, and of all streams of a token, where a program holds them in registers.
# Longer tokens are read first, and normalised by PyTorch.
MOST_HELD = 4096, 16384
# The outputs of `rms_linear`. With more of them, a separate matrix product is the better choice.
MOST_OUTPUTS = 128

_mode = "auto"


@contextmanager
def use(mode: str) -> Iterator[None]:
    """A context in which operators use kernels "always", "never", or on CUDA devices ("auto").

    Outside any context the mode is "auto". Kernels have no second derivatives: use "never" for
    them. For CPU tensors, "always" needs Triton's interpreter.
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
    """Return whether an operator uses its kernel for the state x with this number of streams.

    In the mode "auto" it does for float32, bfloat16 and float16 on a CUDA device, if Triton is
    installed. A kernel reads memory by its address. So in every mode the reference runs for
    DTensors and other wrappers of tensors, and inside transforms of torch.func.
    """
    if (_mode == "never" or x.dtype not in DTYPES or streams > MOST_STREAMS
            or is_traceable_wrapper_subclass(x) or transformed()):
        return False
    return _mode == "always" or (x.is_cuda and bool(TWINS))


def joins(x: Tensor, outputs: int, wide: bool = False) -> bool:
    """Return whether the kernels of `stream_join` serve the state x (..., n, d).

    Arguments:
        outputs: the number of rows of W.
        wide: whether those of `constrained_join` are meant, which take more streams and rows.
    """
    streams, rows = (MOST_STREAMS, MOST_OUTPUTS) if wide else (MOST_JOINED, 64)
    return (x.shape[-2] <= streams and outputs <= rows and serves(x)
            and _runs_joined(x.device))


def holds(x: Tensor) -> bool:
    """Return whether a program holds the rows of x (..., n, d) in registers."""
    n, d = x.shape[-2:]
    return n > 0 and d <= MOST_HELD[0] and n * d <= MOST_HELD[1]


def takes(x: Tensor, norm: Callable | None) -> tuple[Tensor, float] | None:
    """Return the weight and the guard of an RMS norm if one program can read x and take the norm.

    Otherwise return None.

    Arguments:
        x: the state, (..., n, d).
        norm: the weight and the guard, or a module. It must be PyTorch's own, without hooks.
    """
    if norm is None or not holds(x):
        return None
    if isinstance(norm, tuple):
        return norm
    return (norm.weight, norm.eps) if _plain(norm, nn.RMSNorm) else None


def takes_behind(x: Tensor, norm: Callable) -> tuple[Tensor, float, bool] | None:
    """Return the weight and the guard of a norm that follows the write of x if one program can
    write and take it, and whether it is a layer norm. Otherwise return None.

    Arguments:
        x: the state, (..., n, d).
        norm: an RMS norm as for `takes`, or a layer norm without a bias.
    """
    centred = isinstance(norm, nn.LayerNorm) or hasattr(norm, "centred")
    own = isinstance(norm, tuple) or (_plain(norm, nn.RMSNorm, nn.LayerNorm)
                                      and norm.weight.shape == x.shape[-1:])
    # with eight streams its backward pass spills 504 bytes per thread
    few = x.shape[-2] <= MOST_JOINED and holds(x)
    return (norm.weight, norm.eps, centred) if own and few else None


def _plain(norm: Callable, *kinds: type[nn.Module]) -> bool:
    """Return whether a norm is PyTorch's own, without hooks, with a weight alone."""
    return type(norm) in kinds and norm.weight is not None and norm.eps is not None and getattr(
        norm, "bias", None) is None and not (
        "forward" in vars(norm) or norm._forward_hooks or norm._forward_pre_hooks)


def constant(function: Callable) -> Callable:
    """Mark a function as torch.compiler.assume_constant_result does: compiled code keeps its
    result.

    That function itself would import the compiler, which takes a second.
    """
    function._dynamo_marked_constant = True
    return function


@constant  # a trace can't ask a device
def _runs_joined(device: torch.device) -> bool:
    return import_module("geolab.kernels.launch").describe(device).shared >= SHARED_JOINED


def mode() -> str:
    """The mode that `use` set: "auto", "always" or "never"."""
    return _mode


def transformed() -> bool:
    """Return whether torch.func (grad, vmap, jvp, ...), forward mode or torch.export is active.

    None of them can differentiate a hand-written backward pass.
    """
    return (torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0
            or _exporting())


_exporting = getattr(torch.compiler, "is_exporting", lambda: False)  # from PyTorch 2.7 on


def batched(x: Tensor) -> bool:
    """Return whether x is a batch of tensors under vmap, as autograd makes one with
    is_grads_batched=True.
    """
    return not torch.compiler.is_compiling() and (  # the compiler can't trace these
        torch._C._functorch.is_batchedtensor(x) or torch._C._functorch.is_legacy_batchedtensor(x))


def number(value: Tensor | float, like: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return a tensor unchanged, and a number as a tensor on the device of `like`.

    The device writes the number. A copy from the host would wait for the device, and a CUDA graph
    could not capture it.
    """
    if isinstance(value, Tensor):
        return value
    return torch.full((), value, dtype=dtype, device=like.device)


def _twins() -> dict[str, Callable]:
    """The kernels by operator, or nothing without Triton 3.4 or later and a device to run it."""
    runs = torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1"
    if (find_spec("triton") is None or not runs
            or tuple(map(int, import_module("triton").__version__.split(".")[:2])) < (3, 4)):
        return {}
    return every_twin()


def every_twin() -> dict[str, Callable]:
    """The kernels of all files of this folder by operator. Raises: ImportError without Triton."""
    for module in iter_modules(__path__):
        import_module(f"geolab.kernels.{module.name}")
    return import_module("geolab.kernels.launch").TWINS


TWINS = _twins()
