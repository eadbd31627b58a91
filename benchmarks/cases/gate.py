"""The gated mix of a rotation and a reflection."""

import torch.nn.functional as F

from benchmarks.cases.case import Bytes, Case
from geolab import operators


def gated_mix(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """(γ Q + (1 − γ) H) X, where each token has u, v, k, β and γ in place of a matrix."""
    return Bytes(2 * n * e * N * d + 4 * N * (3 * n + 2), 3 * n * e * N * d + 8 * N * (3 * n + 2))


def _gated(N, n, d, state, number):
    return (state(N, n, d), number(N, n), number(N, n), number(N),
            F.normalize(number(N, n), dim=-1), number(N).sigmoid())


CASES = {
    "gated_mix": Case("gated_mix", operators.gated_mix, _gated, gated_mix),
}
