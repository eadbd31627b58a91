"""The delta update, and MGT's diagonal one."""

import torch.nn.functional as F
from torch import Tensor

from benchmarks.cases.case import EPS, Bytes, Case
from geolab import operators

CHANNELS = 4


def delta_update(N: int, d: int, d_v: int = 1, e: int = 2) -> Bytes:
    """The floor of X + β k (vᵀ − kᵀX).

    Forward reads X and k and writes X. Backward reads the gradient too, and writes two, of X and k.
    """
    return Bytes((2 * d_v + 1) * e * N * d + 4 * N * (d_v + 1),
                 (3 * d_v + 2) * e * N * d + 8 * N * (d_v + 1))


def delta_layer(N: int, d: int, d_v: int, e: int = 2) -> Bytes:
    """X + β k (vᵀ − kᵀX), with v and β from linear maps of two more vectors. Forward reads X, k and
    those two, and writes X; backward reads the gradient too and writes the gradients of all.
    """
    maps = (d_v + 1) * (d + 1)
    return Bytes((2 * d_v + 3) * e * N * d + e * maps, (3 * d_v + 6) * e * N * d + 2 * e * maps)


def diagonal_update(N: int, d: int, e: int = 2) -> Bytes:
    """X + β ⊙ (h − α X). Forward reads X, h and β and writes X; backward reads the gradient too and
    writes three gradients.
    """
    return Bytes(4 * e * N * d, 7 * e * N * d)


def _delta(N, n, d, state, number):
    return state(N, d), state(N, d), number(N), 2 * number(N).sigmoid()


def _delta_matrix(N, n, d, state, number):
    return state(N, d, CHANNELS), state(N, d), number(N, CHANNELS), 2 * number(N).sigmoid()


def _layer(N, n, d, state, number):
    maps = state(CHANNELS, d) / d**0.5, state(CHANNELS), state(1, d) / d**0.5, state(1)
    return state(N, d, CHANNELS), *(state(N, d) for _ in range(3)), *maps


def composed_layer(x: Tensor, direction: Tensor, value_of: Tensor, rate_of: Tensor,
                   value_map: Tensor, value_bias: Tensor, rate_map: Tensor,
                   rate_bias: Tensor) -> Tensor:
    """The delta update with v = 4 σ(W u + b) and β = 2 σ(w c + b), as the authors of Deep Delta
    Learning fuse it: u is `value_of`, c is `rate_of`, and k is guarded by EPS √d (DDL section 4.1).
    """
    value = 4 * F.linear(value_of, value_map, value_bias).sigmoid()
    rate = 2 * F.linear(rate_of, rate_map, rate_bias).sigmoid().squeeze(-1)
    return operators.delta_update(x, direction, value, rate, eps=EPS * x.shape[-2]**0.5)


def _diagonal(N, n, d, state, number):
    return state(N, d), state(N, d), state(N, d), number()


CASES = {
    "delta_update": Case(
        "delta_update", operators.delta_update, _delta,
        lambda N, n, d, e: delta_update(N, d, 1, e), options={"eps": EPS}),
    "delta_update, d_v = 4": Case(
        "delta_update", operators.delta_update, _delta_matrix,
        lambda N, n, d, e: delta_update(N, d, CHANNELS, e), options={"eps": EPS}),
    "diagonal_update": Case(
        "diagonal_update", operators.diagonal_update, _diagonal,
        lambda N, n, d, e: diagonal_update(N, d, e)),
}


# What a peer fuses and we compose: a kernel of ours, and operations of PyTorch around it.
COMPOSED = {
    "delta_layer, d_v = 4": Case(
        "delta_update", composed_layer, _layer,
        lambda N, n, d, e: delta_layer(N, d, CHANNELS, e)),
}
