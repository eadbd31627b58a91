"""Operators keep their precision under autocast and at every scale.

Rounded to bfloat16, a rotation is orthogonal only to 1e-2. An operator computes its few numbers in
float32 at least, and applies them to a state in the state's dtype. Its body does so in two steps:
it widens its arguments (or casts them to the state's dtype), and it leaves autocast where it
multiplies matrices, which autocast would round. A shared decorator would be shorter, but
torch.compile counts recompilations per code object, and operators that share one use up each
other's limit.

A square leaves the range of float32 at 1e19 and at 1e-19. So an operator that makes a matrix from a
few numbers first divides them by their size. Numbers of ordinary size stay as they are, with all
their bits. An operator that normalises a whole state would need one more pass for the division.
There a length above 1e19 gives NaN instead of a wrong number, and below 1e-19 the guard decides.
PyTorch's norms, which networks and the generators of some residuals use, give 0 above 1e19: a
division before them would be one more vector to read, write and keep for the backward pass.
Kernels divide nothing by its size: the squares that they add, and products of such lengths, must
stay in the range of float32. Above it they give NaN.
"""

from contextlib import AbstractContextManager, nullcontext
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.kernels import transformed

# Sizes between these have squares, and fourth powers, that float32 holds with all its digits
LEAST, MOST = 2.0**-16, 2.0**16


def widened(x: Tensor) -> Tensor:
    """The tensor in float32 if it has half precision, and as it is otherwise."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def promoted(*tensors: Tensor) -> list[Tensor]:
    """The tensors in the widest of their dtypes, float32 at least."""
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return [tensor.to(dtype) for tensor in tensors]


def outside_autocast(x: Tensor) -> AbstractContextManager:
    """A context in which autocast is off for the device of x."""
    device = x.device.type
    # A meta tensor has no autocast. `is_autocast_available` would know, but PyTorch 2.11 can't
    # compile it.
    if device != "meta" and torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return nullcontext()


def size(x: Tensor, guard: float = 0.0) -> Tensor:
    """The largest |number| of each vector, or the guard if that is larger: (..., d) -> (..., 1).

    A size that is 0, or lies between LEAST and MOST, counts as 1. The result is a constant for
    autograd.
    """
    if not x.shape[-1]:
        return x.new_ones(*x.shape[:-1], 1)
    largest = torch.linalg.vector_norm(x.detach(), torch.inf, dim=-1, keepdim=True)
    largest = largest.clamp(min=guard)
    ordinary = ((largest >= LEAST) & (largest <= MOST)) | (largest == 0)
    return torch.where(ordinary, 1.0, largest)


def product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b of matrices, whose backward pass leaves autocast too."""
    # forward mode and vmap can't look into a hand-written backward pass
    return a @ b if transformed() else Product.apply(a, b)


class Product(torch.autograd.Function):
    """a @ b of matrices, whose backward pass leaves autocast too."""

    @staticmethod
    def forward(ctx, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(a, b)
        return a @ b

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        a, b = ctx.saved_tensors
        with outside_autocast(grad):
            by_a = (grad @ b.mT).sum_to_size(a.shape) if ctx.needs_input_grad[0] else None
            by_b = (a.mT @ grad).sum_to_size(b.shape) if ctx.needs_input_grad[1] else None
        return by_a, by_b


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """W x + bias, whose backward pass leaves autocast too."""
    return F.linear(x, weight, bias) if transformed() else Linear.apply(x, weight, bias)


class Linear(torch.autograd.Function):
    """W x + bias, whose backward pass leaves autocast too."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        x, weight = ctx.saved_tensors
        tokens, (outputs, features) = prod(x.shape[:-1]), weight.shape
        rows = grad.reshape(tokens, outputs)
        with outside_autocast(grad):
            return (grad @ weight, rows.mT @ x.reshape(tokens, features),
                    rows.sum(0) if ctx.needs_input_grad[2] else None)
