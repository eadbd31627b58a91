"""What all kernels share: rows out of leading axes, tiles, output buffers, and refusals by name."""

from contextlib import nullcontext
from math import prod

import torch
import triton
from torch import Tensor

from geolab.kernels import DTYPES

allocate = torch.empty  # the tests hand out NaN here
INTERPRETED = triton.knobs.runtime.interpret


def require(*names: str, **tensors: Tensor) -> None:
    """Raise unless all tensors are on one device that kernels run on; those in `names` must have a
    dtype that kernels read.

    Raises: ValueError for a CPU tensor without the interpreter or a mix of devices, TypeError for a
        dtype.
    """
    (first, state), *others = tensors.items()
    if not (state.is_cuda or INTERPRETED):
        raise ValueError(f"{first} must be on a CUDA device, got {state.device}; "
                         "on a CPU set TRITON_INTERPRET=1 before Triton is imported")
    for name, tensor in others:
        if tensor.device != state.device:
            raise ValueError(f"{name} must be on the device of {first}, {state.device}, "
                             f"got {tensor.device}")
    for name, tensor in tensors.items():
        if not tensor.dtype.is_floating_point or (name in names and tensor.dtype not in DTYPES):
            raise TypeError(f"{name} must be float32, bfloat16 or float16, got {tensor.dtype}")


def rows(x: Tensor, trailing: int) -> Tensor:
    """(..., the trailing axes) -> (N, the trailing axes), contiguous."""
    return x.reshape(prod(x.shape[:x.ndim - trailing]), *x.shape[x.ndim - trailing:]).contiguous()


def groups(coefficient: Tensor, leading: torch.Size, trailing: int) -> tuple[Tensor, int]:
    """Float32 rows of a coefficient (..., the trailing axes) that broadcasts to `leading` axes, and
    how many tokens share one.

    Whatever doesn't share by whole runs of tokens is expanded to one row per token.
    """
    own, shape = coefficient.shape[coefficient.ndim
                                   - trailing:], coefficient.shape[:coefficient.ndim - trailing]
    shape = (1,) * (len(leading) - len(shape)) + tuple(shape)
    kept = len(leading)
    while kept and shape[kept - 1] == 1:
        kept -= 1
    if shape[:kept] != tuple(leading[:kept]):
        shape, kept = tuple(leading), len(leading)
        coefficient = coefficient.expand(*leading, *own)
    return coefficient.float().reshape(prod(shape), *own).contiguous(), prod(leading[kept:])


def summed(per_token: Tensor, span: int, shared: Tensor) -> Tensor:
    """Gradients per token -> gradients of what `span` tokens in a row share; zeros, where there is
    no token.
    """
    return per_token if span == 1 else per_token.view(len(shared), span, *shared.shape[1:]).sum(1)


def buffer(*shape: int, like: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """Memory for an output, which a kernel must fill."""
    return allocate(shape, dtype=dtype or like.dtype, device=like.device)


def on(x: Tensor):
    """Triton launches on the current device: make it that of x."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()
