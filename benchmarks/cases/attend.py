"""A read whose weights depend on what it reads."""

from benchmarks.cases.case import EPS, Bytes, Case
from geolab import operators
from geolab.operators.attend import Attention


def attend(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """Forward reads n vectors and writes one; backward reads n + 1 and writes n."""
    return Bytes((n + 1) * e * N * d + 4 * d, (2 * n + 1) * e * N * d + 8 * d)


def _inputs(N, n, d, state, number):
    return state(N, n, d), number(d) / d**0.5


CASES = {"attend": Case("attend", operators.attend, _inputs, attend,
                        options={"how": Attention(EPS)})}
