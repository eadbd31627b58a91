"""A norm behind the residual: the norm of each stream of H X + b ⊗ h, or of x + h.

    RMS: γ ⊙ zᵢ / √(mean zᵢ² + eps)        layer: the same of zᵢ minus its mean

Legend: n streams, d features per stream, ... any leading axes (batch, position).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from geolab import kernels
from geolab.checks import (
    require_leading,
    require_norm,
    require_real,
    require_square,
    require_state,
    require_width,
    require_write,
)
from geolab.operators.streams import Unwritten


class LayerNorm(NamedTuple):
    """A layer norm without a bias."""

    weight: Tensor  # γ: (d)
    eps: float
    centred = True

    def __call__(self, u: Tensor) -> Tensor:
        return F.layer_norm(u, u.shape[-1:], self.weight, eps=self.eps)


def post_norm(state: Unwritten, norm: Callable[[Tensor], Tensor]) -> Tensor:
    """The norm of a state behind its write: of each stream of H X + b ⊗ h, or of x + h.

    The kernel takes an RMS norm, or a layer norm without a bias, in the pass that writes up to four
    streams.

    Arguments:
        state: X, h, and H and b; or x and h, both (..., d), and None.
        norm: a function of features: a `Norm`, a `LayerNorm`, a module.
    Returns: (..., n, d), or (..., d), in the dtype of the state.
    Raises: as `stream_mix_write`; ValueError unless a `Norm` or a `LayerNorm` has d weights.
    """
    x, update, given = state
    require_state("x", x, 1 if given is None else 2)
    *tokens, d = x.shape if given is None else x.shape[:-2] + x.shape[-1:]
    if isinstance(norm, tuple):
        require_norm(norm, d)
    if given is None:
        require_real(update=update)
        require_width("update", update, d)
        require_leading("update", update, 1, tokens)
    streams = x.unsqueeze(-2) if given is None else x
    held = kernels.takes_behind(streams, norm)
    # whether the sum x + h has another dtype than x
    wider = given is None and x.dtype != update.dtype and (
        x.dtype != torch.float32 or update.dtype == torch.float64)
    if held is None or wider or not kernels.serves(x):
        return norm(state.written())
    n = streams.shape[-2]
    if isinstance(given, tuple):
        matrix, weights = given
        require_write(x, matrix, weights, update)
        given = torch.cat([matrix.expand(*tokens, n, n),
                           weights.expand(*tokens, n).unsqueeze(-2)], dim=-2)
    elif given is not None:
        require_width("update", update, d)
        require_leading("update", update, 1, tokens)
        require_width("given", given, n)
        require_leading("given", given, 2, tokens)
        if given.shape[-2] != 1:
            require_square("matrix", given[..., :-1, :], n)
    return kernels.TWINS["post_norm"](x, update, given, *held)
