"""A read whose weights depend on what it reads."""

from torch import Tensor

from benchmarks.cases.case import EPS, Bytes, Case
from geolab import operators
from geolab.operators.attend import Attention


def attend(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """Forward reads n vectors and writes one; backward reads n + 1 and writes n."""
    return Bytes((n + 1) * e * N * d + 4 * d, (2 * n + 1) * e * N * d + 8 * d)


def attend_on(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """The same, where backward also reads the gradient of the sources that comes from later."""
    there, back = attend(N, n, d, e)
    return Bytes(there, back + n * e * N * d)


def _inputs(N, n, d, state, number):
    return state(N, n, d), number(d) / d**0.5


def read_on(x: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
    """`attend_on` of all places."""
    return operators.attend_on(x, query, Attention(EPS), x.shape[-2])


CASES = {"attend": Case("attend", operators.attend, _inputs, attend,
                        options={"how": Attention(EPS)}),
         "attend_on": Case("attend_on", read_on, _inputs, attend_on)}
