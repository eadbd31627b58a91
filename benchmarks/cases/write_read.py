"""A write, and a read whose weights don't depend on the state."""

from torch import Tensor

from benchmarks.cases.case import Bytes, Case
from benchmarks.cases.streams import with_norm
from geolab import operators
from geolab.operators.streams import Norm, Unwritten


def stream_write_read(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """H X + b ⊗ h and aᵀ of it. Forward reads n + 1 vectors and writes n + 1; backward reads 2n + 2
    and writes n + 1.
    """
    given = n**2 + 2 * n
    return Bytes((2 * n + 2) * e * N * d + 4 * N * given, (3 * n + 3) * e * N * d + 8 * N * given)


def _inputs(N, n, d, state, number):
    return state(N, n, d), number(N, n + 1, n), state(N, d), number(N, n)


def run(x: Tensor, given: Tensor, update: Tensor, weights: Tensor,
        norm: Norm | None = None) -> tuple[Tensor, Tensor]:
    """`stream_write_read` of single tensors."""
    return operators.stream_write_read(Unwritten(x, update, given), weights, norm)


CASES = {"stream_write_read": Case("stream_write_read", run, _inputs, stream_write_read,
                                   roundings=1)}
CASES["stream_write_read, normed"] = with_norm(CASES["stream_write_read"])
