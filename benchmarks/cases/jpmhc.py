"""JPmHC between two sublayers."""

from torch import Tensor

from benchmarks.cases.case import EPS, Bytes, Case
from geolab import operators
from geolab.operators.generate import Maps
from geolab.operators.jpmhc import Turn
from geolab.operators.streams import Norm, Unwritten


def jpmhc_join(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """`constrained_join` with two norms and the logits of three matrices."""
    given, shared = n**2 + n, 3 * n**2 * (n * d + 1) + 1 + 2 * n * d + d
    return Bytes((2 * n + 2) * e * N * d + 8 * N * given + 4 * shared,
                 (3 * n + 3) * e * N * d + 12 * N * given + 8 * shared)


def _inputs(N, n, d, state, number):
    O = 3 * n**2
    return (state(N, n, d), number(N, n + 1, n), state(N, d), number(O, n * d) / (n * d)**0.5,
            number(1), number(O), number(n * d), number(n * d), number(d))


def join(x: Tensor, given: Tensor, update: Tensor, weight: Tensor, scale: Tensor, bias: Tensor,
         stretch: Tensor, shift: Tensor, gamma: Tensor | None = None,
         turn: Turn = Turn(eps=EPS)) -> tuple[Tensor, ...]:
    """`jpmhc_join` of single tensors."""
    return operators.jpmhc_join(Unwritten(x, update, given), Maps(weight, scale.reshape(1), bias),
                                (stretch, shift), turn,
                                None if gamma is None else Norm(gamma, EPS))


CASES = {"jpmhc_join": Case("jpmhc_join", join, _inputs, jpmhc_join, roundings=2)}
CASES["jpmhc_join, exact"] = CASES["jpmhc_join"]._replace(
    options={"turn": Turn(eps=EPS, exact=True)})
