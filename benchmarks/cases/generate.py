"""The generator of coefficients."""

from benchmarks.cases.case import EPS, Bytes, Case
from geolab import operators


def rms_linear(N: int, D: int, O: int, e: int = 2) -> Bytes:
    """W (x / rms x), with D features and O outputs per token.

    Backward reads x once for both gradients, that of x and that of W.
    """
    return Bytes(e * N * D + 4 * O * (N + D), 2 * e * N * D + 4 * O * (N + 2 * D))


def _generator(N, n, d, state, number):
    return state(N, n * d), number(n * (n + 2), n * d)


CASES = {
    "rms_linear": Case(
        "rms_linear", operators.rms_linear, _generator,
        lambda N, n, d, e: rms_linear(N, n * d, n * (n + 2), e), options={"eps": EPS}),
}
