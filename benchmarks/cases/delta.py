"""The delta update, and MGT's diagonal one."""

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
    return Bytes((2 * d_v + 3) * e * N * d + 4 * maps, (3 * d_v + 6) * e * N * d + 8 * maps)


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
    maps = number(CHANNELS, d) / d**0.5, number(CHANNELS), number(1, d) / d**0.5, number(1)
    return state(N, d, CHANNELS), *(state(N, d) for _ in range(3)), *maps


def layer(*given: Tensor) -> Tensor:
    """The update as Deep Delta Learning's authors fuse it, who guard k by EPS √d."""
    return operators.delta_layer(*given, eps=EPS * given[1].shape[-1]**0.5)


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
    "delta_layer, d_v = 4": Case(
        "delta_layer", layer, _layer, lambda N, n, d, e: delta_layer(N, d, CHANNELS, e)),
}
