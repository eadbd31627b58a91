"""A norm behind the residual, with the write before it."""

from collections.abc import Callable

from torch import Tensor

from benchmarks.cases.case import EPS, Bytes, Case
from benchmarks.cases.streams import stream_mix_write
from geolab import operators
from geolab.operators.post_norm import LayerNorm
from geolab.operators.streams import Norm, Unwritten


def post_norm(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """The bytes of the write alone, and those of γ and its gradient."""
    there, back = stream_mix_write(N, n, d, e)
    return Bytes(there + 4 * d, back + 8 * d)


def unmixed(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """The same with H = I."""
    there, back = post_norm(N, n, d, e)
    return Bytes(there - 4 * N * n**2, back - 8 * N * n**2)


def of_sum(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """x + h. Forward reads two vectors and writes one; backward reads three and writes one, which
    is the gradient of both.
    """
    return Bytes(3 * e * N * d + 4 * d, 4 * e * N * d + 8 * d)


def _inputs(N, n, d, state, number):
    return state(N, n, d), state(N, d), number(d), number(N, n + 1, n)


def _unmixed(N, n, d, state, number):
    return state(N, n, d), state(N, d), number(d), number(N, 1, n)


def _of_sum(N, n, d, state, number):
    return state(N, d), state(N, d), number(d)


def normed(x: Tensor, update: Tensor, gamma: Tensor, given: Tensor | None = None,
           norm: Callable = Norm) -> Tensor:
    """`post_norm` of single tensors."""
    return operators.post_norm(Unwritten(x, update, given), norm(gamma, EPS))


CASES = {
    "post_norm": Case("post_norm", normed, _inputs, post_norm),
    "post_norm, layer": Case("post_norm", normed, _inputs, post_norm,
                             options={"norm": LayerNorm}),
    "post_norm, H = I": Case("post_norm", normed, _unmixed, unmixed),
    "post_norm, x + h": Case("post_norm", normed, _of_sum, of_sum),
}
