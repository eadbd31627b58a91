"""The fewest bytes that each operator moves through a device's memory: every input read once, every
output written once.

A backward pass reads the gradients of its outputs and the inputs that they meet, and writes the
gradients of its inputs.

Legend: N tokens, n streams, d features per stream, d_v value channels, e bytes per number of the
state. Coefficients are float32.
"""

from typing import NamedTuple


class Bytes(NamedTuple):
    forward: int
    backward: int


def stream_read(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """aᵀX: n vectors in and one out; back, one and n in, n out."""
    return Bytes((n + 1) * e * N * d + 4 * N * n, (2 * n + 1) * e * N * d + 8 * N * n)


def stream_mix(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """H X."""
    return Bytes(2 * n * e * N * d + 4 * N * n**2, 3 * n * e * N * d + 8 * N * n**2)


def stream_mix_write(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """H X + b ⊗ h."""
    return Bytes((2 * n + 1) * e * N * d + 4 * N * (n**2 + n), (3 * n + 2) * e * N * d
                 + 8 * N * (n**2 + n))


def gated_mix(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """(γ Q + (1 − γ) H) X, with u, v, k, β and γ of each token in place of a matrix."""
    return Bytes(2 * n * e * N * d + 4 * N * (3 * n + 2), 3 * n * e * N * d + 8 * N * (3 * n + 2))


def delta_update(N: int, d: int, d_v: int = 1, e: int = 2) -> Bytes:
    """X + β k (vᵀ − kᵀX)."""
    return Bytes((2 * d_v + 1) * e * N * d + 4 * N * (d_v + 1), (3 * d_v + 2) * e * N * d
                 + 8 * N * (d_v + 1))


def diagonal_update(N: int, d: int, e: int = 2) -> Bytes:
    """X + β ⊙ (h − α X): x, h and β in, one out; back, those and a gradient in, three out."""
    return Bytes(4 * e * N * d, 7 * e * N * d)


def sinkhorn(N: int, n: int) -> Bytes:
    return Bytes(8 * N * n**2, 12 * N * n**2)


def rms_linear(N: int, D: int, O: int, e: int = 2) -> Bytes:
    """W (x / rms x), with D features and O outputs per token.

    Back, the gradient by x, and the one by W from the same reading of x.
    """
    return Bytes(e * N * D + 4 * O * (N + D), 2 * e * N * D + 4 * O * (N + 2 * D))


def cayley_rank2(N: int, n: int) -> Bytes:
    return Bytes(4 * N * (2 * n + 1 + n**2), 4 * N * (n**2 + 2 * (2 * n + 1)))


def cayley_skew4(N: int) -> Bytes:
    return Bytes(128 * N, 192 * N)
