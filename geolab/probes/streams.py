"""The effect of a stack of mixing matrices on n streams: its gain, and the differences that remain.

Legend: L layers, ... any axes between (batch, position), n streams.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from geolab.probes.spectra import doubled


class Gain(NamedTuple):
    """The largest amplification by H_L ⋯ H_l, for each l."""

    forward: Tensor    # (L,), of a signal: the largest absolute row sum
    backward: Tensor   # (L,), of a gradient: the largest absolute column sum


def composite_gain(matrices: Tensor) -> Gain:
    """The gain of the stack from layer l to its end, averaged over tokens (mHC, section 3.1).

    Entry 0 is the gain of the whole stack, entry L − 1 that of the last layer alone. Both gains are
    1 for any number of doubly stochastic matrices.

    Arguments:
        matrices: (L, ..., n, n), the residual mixing matrices in the order in which they act.
    Raises: ValueError for another shape.
    """
    product, forward, backward = None, [], []
    for matrix in _layers(matrices).flip(0):
        product = matrix if product is None else product @ matrix
        forward.append(product.abs().sum(-1).amax(-1).mean())
        backward.append(product.abs().sum(-2).amax(-1).mean())
    return Gain(torch.stack(forward[::-1]), torch.stack(backward[::-1]))


def stream_consensus(matrices: Tensor) -> Tensor:
    """σ₂ through depth: the largest share of a difference between streams that H_l ⋯ H_1 leaves.

    The difference is a vector that sums to zero over the streams. Its part in the streams' mean
    after the product doesn't count. For doubly stochastic matrices this is the second singular
    value of the product. At 1 a difference survives. At 0 all streams are equal, except for the
    writes of sublayers.

    Arguments:
        matrices: (L, ..., n, n), n at least 2, in the order in which they act.
    Returns: (L, ...).
    Raises: ValueError for another shape, or a single stream.
    """
    matrices = _layers(matrices)
    n = matrices.shape[-1]
    if n < 2:
        raise ValueError("matrices must mix at least 2 streams: one stream has no difference")
    centre = torch.eye(n).to(matrices) - 1 / n
    product, shares = centre, []
    for matrix in matrices:
        product = matrix @ product
        shares.append(torch.linalg.matrix_norm(centre @ product, ord=2))
    return torch.stack(shares)


def _layers(matrices: Tensor) -> Tensor:
    if matrices.ndim < 3 or matrices.shape[-1] != matrices.shape[-2]:
        raise ValueError(f"matrices must be (layers, ..., n, n), got shape {tuple(matrices.shape)}")
    return doubled(matrices)
