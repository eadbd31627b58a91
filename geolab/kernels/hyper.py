"""The kernels between two sublayers of hyper-connections, as `constrained` has them.

A logit belongs to a stream, and is made of the stream's own layer norm: y = G (z − mean z) / σ of
each stream, the logits are s ⊙ tanh y + table, and b′, a and the columns of H′ are the logits
themselves. One product makes all sums: W is block diagonal, with a G per stream whose rows have no
mean, and a row of ones per stream for the streams' means.

Legend: as in `constrained`. G is (n + 2, d), and W (n (n + 3), n, d).
"""

import triton
import triton.language as tl
from torch import Tensor

from geolab.kernels import launch
from geolab.kernels.constrained import Form, Maps, join
from geolab.kernels.launch import twin

WARPS = 8


@twin
def hyper_join(x: Tensor, given: Tensor | None, update: Tensor | None, maps: tuple, eps: float,
               tanh: bool = True, norm: tuple[Tensor, float] | None = None) -> tuple[Tensor, ...]:
    """Z, u and H′ above b′, as `operators.hyper_join`, for n up to 8.

    It moves as many vectors as `constrained_join`.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    weight, scale, table, _ = maps
    launch.require("x", x=x, weight=weight)
    spread = spread_weight(weight.float().contiguous(), x.shape[-2])
    return join(x, given, update, Maps(spread, scale, table),
                Form("tanh" if tanh else "free", eps), norm=norm)


def _launch(weight: Tensor, n: int, spread: Tensor) -> None:
    rows, d = weight.shape
    _spread[(rows + 1,)](weight, spread, d, n, rows, 1 << (d - 1).bit_length(), num_warps=WARPS)


def _launch_backward(grad: Tensor, n: int, of_weight: Tensor) -> None:
    rows, d = of_weight.shape
    _gather[(rows,)](grad, of_weight, d, n, rows, 1 << (d - 1).bit_length(), num_warps=WARPS)


@launch.op("geolab::spread_weight", _launch)
def spread_weight(weight: Tensor, n: int) -> Tensor:
    """W, ((rows + 1) n, n d), of a G (rows, d) that reads each of n streams: a row of W for each
    stream and row of G, without its mean, then a row of ones for each stream.
    """
    rows, d = weight.shape
    return weight.new_empty((rows + 1) * n, n * d)


@launch.op("geolab::spread_weight_backward", _launch_backward)
def _spread_weight_backward(grad: Tensor, n: int) -> Tensor:
    rows, features = grad.shape
    return grad.new_empty(rows // n - 1, features // n)


launch.differentiate(spread_weight, _spread_weight_backward, lambda inputs, outputs: inputs[1:])


# ---------------------------------------------------------------- in Triton

@triton.jit
def _spread(G, W, d, n: tl.constexpr, ROWS: tl.constexpr, FEATURES: tl.constexpr):
    """Write the rows of W that a row of G makes, or the ones."""
    k, feature = tl.program_id(0), tl.arange(0, FEATURES)
    real = feature < d
    g = tl.load(G + k * d + feature, mask=real & (k < ROWS), other=0.0)
    g -= tl.sum(g, axis=0) / d
    g = tl.where(k < ROWS, g, 1.0)
    for i in tl.static_range(n):
        row = tl.where(k < ROWS, i * ROWS + k, n * ROWS + i)
        for j in tl.static_range(n):
            tl.store(W + (row * n + j) * d + feature, g if i == j else tl.zeros_like(g), mask=real)


@triton.jit
def _gather(GW, GG, d, n: tl.constexpr, ROWS: tl.constexpr, FEATURES: tl.constexpr):
    """Write the gradient of a row of G."""
    k, feature = tl.program_id(0), tl.arange(0, FEATURES)
    real = feature < d
    g = tl.zeros([FEATURES], tl.float32)
    for i in tl.static_range(n):
        g += tl.load(GW + ((i * ROWS + k) * n + i) * d + feature, mask=real, other=0.0)
    tl.store(GG + k * d + feature, g - tl.sum(g, axis=0) / d, mask=real)
