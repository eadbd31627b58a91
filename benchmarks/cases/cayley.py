"""The Cayley transforms."""

from benchmarks.cases.case import Bytes, Case
from geolab import operators


def cayley_rank2(N: int, n: int) -> Bytes:
    """The Cayley transform of (β/2)(u vᵀ − v uᵀ), from u, v and β of each token."""
    return Bytes(4 * N * (2 * n + 1 + n**2), 4 * N * (n**2 + 2 * (2 * n + 1)))


def cayley_skew4(N: int) -> Bytes:
    """The Cayley transform of a skew 4 × 4 matrix per token."""
    return Bytes(128 * N, 192 * N)


def _plane(N, n, d, state, number):
    return number(N, n), number(N, n), number(N)


def _skew(N, n, d, state, number):
    return (operators.skew(number(N, n, n)),)


CASES = {
    "cayley_rank2": Case(
        "cayley_rank2", operators.cayley_rank2, _plane,
        lambda N, n, d, e: cayley_rank2(N, n), "matrices"),
    "cayley_skew4": Case(
        "cayley_skew4", operators.cayley_skew4, _skew, lambda N, n, d, e: cayley_skew4(N),
        "matrices"),
}
