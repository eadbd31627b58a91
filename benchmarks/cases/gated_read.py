"""The read of gated streams, whose logits are given."""

from torch import Tensor

from benchmarks.cases.case import EPS, Bytes, Case
from geolab import operators


def gated_read(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """u and x̂ of streams, logits and w. Forward reads 2n vectors and writes n + 1; backward reads
    3n + 1, with the gradient of x̂, and writes 2n.
    """
    return Bytes((3 * n + 1) * e * N * d + 4 * n * d, (5 * n + 1) * e * N * d + 8 * n * d)


def _inputs(N, n, d, state, number):
    return state(N, n, d), number(n, d), state(N, n, d)


def read(x: Tensor, weight: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
    """`gated_read` with these logits."""
    return operators.gated_read(x, weight, lambda _: logits.flatten(-2), EPS)


CASES = {"gated_read": Case("gated_read", read, _inputs, gated_read, roundings=1)}
