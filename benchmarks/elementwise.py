"""The operators whose products are as small as n × n, written so that torch.compile can fuse them.

A product of two matrices goes to a library, which takes a 4 × 4 matrix per token badly, and which
no compiler looks into. Here each product is a sum of elementwise products in float32, so that the
compiler makes one kernel of it, forward and backward: its best case, and not that of our reference.
The other cases need no such form, as they have no products, or large ones.
"""

from collections.abc import Callable

from torch import Tensor


def read(x: Tensor, weights: Tensor) -> Tensor:
    """aᵀX: (N, n, d), (N, n) -> (N, d)."""
    return (weights.unsqueeze(-1) * x.to(weights.dtype)).sum(-2).to(x.dtype)


def mix(x: Tensor, matrix: Tensor) -> Tensor:
    """H X: (N, n, d), (N, n, n) -> (N, n, d)."""
    return _mixed(x, matrix).to(x.dtype)


def mix_write(x: Tensor, matrix: Tensor, weights: Tensor, update: Tensor) -> Tensor:
    """H X + b ⊗ h: (N, n, d), (..., n, n), (..., n), (N, d) -> (N, n, d)."""
    written = weights.unsqueeze(-1) * update.to(weights.dtype).unsqueeze(-2)
    return (_mixed(x, matrix) + written).to(x.dtype)


def _mixed(x: Tensor, matrix: Tensor) -> Tensor:
    return (matrix.unsqueeze(-1) * x.to(matrix.dtype).unsqueeze(-3)).sum(-2)


def delta_matrix_update(x: Tensor, direction: Tensor, value: Tensor, beta: Tensor, *,
                        eps: float) -> Tensor:
    """X + β k (vᵀ − kᵀX) with k = h / √(‖h‖² + ε²): (N, d, d_v), (N, d), (N, d_v), (N,)."""
    h, wide = direction.to(beta.dtype), x.to(beta.dtype)
    k = (h / (h.square().sum(-1, keepdim=True) + eps**2).sqrt()).unsqueeze(-1)
    change = value - (k * wide).sum(-2)
    return (wide + beta[:, None, None] * k * change.unsqueeze(-2)).to(x.dtype)


# the name of a case -> its operator in this form
ELEMENTWISE: dict[str, Callable[..., Tensor]] = {
    "stream_read": read, "stream_mix": mix, "stream_mix_write": mix_write,
    "stream_mix_write, shared": mix_write, "stream_mix_write, autocast": mix_write,
    "delta_update, d_v = 4": delta_matrix_update}
