"""What all kernels share: their place in torch.library, the layout of their arguments, memory for
their outputs, and error messages that name an argument.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from math import prod

import torch
import triton
from torch import Tensor
from torch.library import CustomOpDef, custom_op

from geolab.kernels import DTYPES

allocate = torch.empty  # the tests replace it, so that outputs begin as NaN
INTERPRETED = triton.knobs.runtime.interpret


# ---------------------------------------------------------------- torch.library

def op(name: str, launch: Callable[..., None]) -> Callable[[Callable], CustomOpDef]:
    """A decorator: it turns a function that allocates outputs into the operator `name` of
    torch.library.

    The function takes the operator's inputs and returns a `buffer`, or a tuple of them. It runs
    alone where torch.compile traces shapes. Otherwise launch(*inputs, *buffers) fills the buffers,
    unless all of them are empty.
    """
    def register(outputs: Callable) -> CustomOpDef:
        @wraps(outputs)
        def filled(*inputs):
            made = outputs(*inputs)
            buffers = made if isinstance(made, tuple) else (made,)
            if any(tensor.numel() for tensor in buffers):
                first = buffers[0]
                # Triton launches on the current device
                with torch.cuda.device(first.device) if first.is_cuda else nullcontext():
                    launch(*inputs, *buffers)
            return made

        defined = custom_op(name, filled, mutates_args=())
        defined.register_fake(outputs)
        return defined

    return register


def differentiate(forward: CustomOpDef, vjp: Callable,
                  keep: Callable = lambda inputs, outputs: inputs) -> None:
    """Register `vjp` as the backward pass of an operator whose first output alone has a gradient.

    keep(inputs, outputs) chooses what is remembered: tensors, numbers and None. vjp(grad, *kept)
    returns the gradients of the operator's first inputs. The inputs after those have none.
    """
    def remember(ctx, inputs, output):
        kept = keep(inputs, output)
        ctx.inputs = len(inputs)
        ctx.others = [None if isinstance(item, Tensor) else item for item in kept]
        ctx.save_for_backward(*(item if isinstance(item, Tensor) else None for item in kept))
        if isinstance(output, tuple):
            ctx.mark_non_differentiable(*output[1:])

    def backward(ctx, grad, *_):
        kept = [other if saved is None else saved
                for saved, other in zip(ctx.saved_tensors, ctx.others, strict=True)]
        grads = vjp(grad.contiguous(), *kept)
        grads = grads if isinstance(grads, tuple) else (grads,)
        return *grads, *[None] * (ctx.inputs - len(grads))

    forward.register_autograd(backward, setup_context=remember)


# ---------------------------------------------------------------- arguments and outputs

def require(*names: str, **tensors: Tensor) -> None:
    """Raise unless all tensors are floating-point and on one device that kernels run on.

    Those in `names` must also have a dtype that kernels read.
    Raises: ValueError for a CPU tensor without the interpreter, or for tensors on several devices;
        TypeError for a dtype.
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
    leading = x.ndim - trailing
    return x.reshape(prod(x.shape[:leading]), *x.shape[leading:]).contiguous()


def groups(coefficient: Tensor, leading: torch.Size, trailing: int) -> tuple[Tensor, int]:
    """Float32 rows of a coefficient (..., the trailing axes), and how many tokens share each row.

    The coefficient broadcasts to the `leading` axes. If its last ones are 1 and the others are
    complete, consecutive tokens share a row. In all other cases it is expanded to one row per
    token.
    """
    axes = coefficient.ndim - trailing
    shape, own = tuple(coefficient.shape[:axes]), coefficient.shape[axes:]
    shape = (1,) * (len(leading) - len(shape)) + shape
    kept = len(leading)
    while kept and shape[kept - 1] == 1:
        kept -= 1
    if shape[:kept] != tuple(leading[:kept]):
        shape, kept = tuple(leading), len(leading)
        coefficient = coefficient.expand(*leading, *own)
    return coefficient.float().reshape(prod(shape), *own).contiguous(), prod(leading[kept:])


def summed(per_token: Tensor, span: int, shared: Tensor) -> Tensor:
    """Add up the gradients of `span` consecutive tokens, which share a row of `shared`.

    Without any token the result is zeros.
    """
    return per_token if span == 1 else per_token.view(len(shared), span, *shared.shape[1:]).sum(1)


def buffer(*shape: int, like: Tensor) -> Tensor:
    """Memory for an output, which a kernel must fill."""
    return allocate(shape, dtype=like.dtype, device=like.device)
