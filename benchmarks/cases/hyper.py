"""Hyper-connections between two sublayers."""

from torch import Tensor

from benchmarks.cases.case import EPS, Bytes, Case
from geolab import operators
from geolab.operators.generate import Maps
from geolab.operators.streams import Norm, Unwritten


def hyper_join(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """`constrained_join` with a norm and a table of n (n + 2) numbers, for whose logits one matrix
    of n + 2 rows reads every stream.
    """
    given, shared = n**2 + n, (n + 2) * d + n * (n + 2) + 2 + d
    return Bytes((2 * n + 2) * e * N * d + 8 * N * given + 4 * shared,
                 (3 * n + 3) * e * N * d + 12 * N * given + 8 * shared)


def _inputs(N, n, d, state, number):
    return (state(N, n, d), number(N, n + 1, n), state(N, d), number(n + 2, d) / d**0.5, number(2),
            number(n * (n + 2)), number(d))


def join(x: Tensor, given: Tensor, update: Tensor, weight: Tensor, scale: Tensor, table: Tensor,
         gamma: Tensor | None = None, tanh: bool = True) -> tuple[Tensor, ...]:
    """`hyper_join` of single tensors."""
    return operators.hyper_join(Unwritten(x, update, given), Maps(weight, scale, table), EPS, tanh,
                                None if gamma is None else Norm(gamma, EPS))


CASES = {"hyper_join": Case("hyper_join", join, _inputs, hyper_join, roundings=2)}
