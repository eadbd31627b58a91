"""Sinkhorn's projection."""

from benchmarks.cases.case import Bytes, Case
from geolab import operators


def sinkhorn(N: int, n: int) -> Bytes:
    """Sinkhorn's projection of n × n logits per token, however many iterations it takes."""
    return Bytes(8 * N * n**2, 12 * N * n**2)


def _logits(N, n, d, state, number):
    return (2 * number(N, n, n),)


CASES = {
    "sinkhorn": Case(
        "sinkhorn", operators.sinkhorn, _logits, lambda N, n, d, e: sinkhorn(N, n),
        "matrices"),
    "sinkhorn, rows first": Case(
        "sinkhorn", operators.sinkhorn, _logits, lambda N, n, d, e: sinkhorn(N, n),
        "matrices", {"order": "row-column"}),
}
