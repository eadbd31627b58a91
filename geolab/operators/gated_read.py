"""What a sublayer of gated streams reads: u = Σᵢ σ(lᵢ) ⊙ x̂ᵢ / n, with x̂ᵢ = (1 + wᵢ) ⊙ xᵢ / rms xᵢ.

The logits lᵢ, one per feature of each stream, are made of x̂.

Legend: n streams, d features per stream, ... any leading axes (batch, position).
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from geolab import kernels
from geolab.checks import (
    require_leading,
    require_number,
    require_real,
    require_state,
    require_width,
)
from geolab.operators.precision import size, widened


def gated_read(x: Tensor, weight: Tensor, gate: Callable[[Tensor], Tensor],
               eps: float) -> tuple[Tensor, Tensor]:
    """u, (..., d), and x̂, (..., n d), in the dtype of x.

    Arguments:
        x: the streams, (..., n, d).
        weight: w, (n, d).
        gate: x̂ -> l, (..., n d) both.
        eps: the guard of the norms.
    Raises: ValueError for a weight or logits of another shape, or a negative eps; TypeError for
        complex numbers, or an x whose numbers aren't floating-point.
    """
    require_state("x", x, 2)
    require_real(weight=weight)
    n, d = x.shape[-2:]
    require_width("weight", weight, d)
    require_leading("weight", weight, 1, (n,))
    require_number("eps", eps, 0)
    gate = partial(_logits, gate)
    if kernels.serves(x, n) and 0 < d <= kernels.MOST_HELD[0]:
        return kernels.TWINS["gated_read"](x, weight, gate, eps)
    scale = inverse_sizes(x, weight, eps)
    normed = (scale * widened(x)).to(x.dtype).flatten(-2)
    share = gate(normed).sigmoid().view_as(x) * scale / n
    return (share * x).sum(-2).to(x.dtype), normed


def _logits(gate: Callable[[Tensor], Tensor], normed: Tensor) -> Tensor:
    logits = gate(normed)
    if logits.shape != normed.shape:
        raise ValueError("gate must give one logit for each number that it reads, of shape "
                         f"{tuple(normed.shape)}, got {tuple(logits.shape)}")
    require_real(logits=logits)
    return logits


def inverse_sizes(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """(1 + w) / rms x, (..., n, d), in float32 at least."""
    x = widened(x)
    own = size(x, eps**0.5)
    square = (x / own).square().mean(-1, keepdim=True)
    return (1 + weight) * (torch.rsqrt(square + eps * own**-2 if eps else square) / own)
