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
from geolab.kernels.launch import buffer, power_of_two, twin


@twin
def hyper_join(x: Tensor, given: Tensor | None, update: Tensor | None, maps: tuple, eps: float,
               tanh: bool = True, norm: tuple[Tensor, float] | None = None) -> tuple[Tensor, ...]:
    """Z, u and H′ above b′, as `operators.hyper_join`, for n up to 4.

    It moves as many vectors as `constrained_join`.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    weight, scale, table, _ = maps
    launch.require("x", x=x, weight=weight)
    spread = _spread_weight(weight.float().contiguous(), x.shape[-2])
    return join(x, given, update, Maps(spread, scale, table),
                Form("tanh" if tanh else "free", eps), norm=norm)


def _launch(weight: Tensor, n: int, spread: Tensor) -> None:
    d = weight.shape[-1]
    _spread[(n + 3,)](weight, spread, d, n, power_of_two(d), num_warps=8)


def _launch_backward(grad: Tensor, n: int, of_weight: Tensor) -> None:
    d = of_weight.shape[-1]
    _gather[(n + 2,)](grad, of_weight, d, n, power_of_two(d), num_warps=8)


@launch.op("geolab::spread_weight", _launch)
def _spread_weight(weight: Tensor, n: int) -> Tensor:
    return buffer(n * (n + 3), n * weight.shape[-1], like=weight)


@launch.op("geolab::spread_weight_backward", _launch_backward)
def _spread_weight_backward(grad: Tensor, n: int) -> Tensor:
    return buffer(n + 2, grad.shape[-1] // n, like=grad)


launch.differentiate(_spread_weight, _spread_weight_backward, lambda inputs, outputs: inputs[1:])


# ---------------------------------------------------------------- in Triton

@triton.jit
def _spread(G, W, d, n: tl.constexpr, FEATURES: tl.constexpr):
    """Write the rows of W that a row of G makes, or the ones."""
    k, feature = tl.program_id(0), tl.arange(0, FEATURES)
    real = feature < d
    g = tl.load(G + k * d + feature, mask=real & (k < n + 2), other=0.0)
    g -= tl.sum(g, axis=0) / d
    g = tl.where(k < n + 2, g, 1.0)
    for i in tl.static_range(n):
        row = tl.where(k < n + 2, i * (n + 2) + k, n * (n + 2) + i)
        for j in tl.static_range(n):
            tl.store(W + (row * n + j) * d + feature, g if i == j else tl.zeros_like(g), mask=real)


@triton.jit
def _gather(GW, GG, d, n: tl.constexpr, FEATURES: tl.constexpr):
    """Write the gradient of a row of G."""
    k, feature = tl.program_id(0), tl.arange(0, FEATURES)
    real = feature < d
    g = tl.zeros([FEATURES], tl.float32)
    for i in tl.static_range(n):
        g += tl.load(GW + ((i * (n + 2) + k) * n + i) * d + feature, mask=real, other=0.0)
    tl.store(GG + k * d + feature, g - tl.sum(g, axis=0) / d, mask=real)
