"""The fewest bytes that each operator moves through a device's memory: it reads every input once
and writes every output once.

A backward pass reads the gradients of the outputs, and the inputs that those gradients are
multiplied by. It writes the gradients of the inputs.

Legend: N tokens, n streams, d features per stream, d_v value channels, e bytes per number of the
state. Coefficients are float32.
"""

from typing import NamedTuple


class Bytes(NamedTuple):
    """Bytes of a forward pass and of a backward pass."""

    forward: int
    backward: int


def stream_read(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """aᵀX. Forward reads n vectors and writes one; backward reads n + 1 and writes n."""
    return Bytes((n + 1) * e * N * d + 4 * N * n, (2 * n + 1) * e * N * d + 8 * N * n)


def stream_mix(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """H X. Forward reads n vectors and writes n; backward reads 2n and writes n."""
    return Bytes(2 * n * e * N * d + 4 * N * n**2, 3 * n * e * N * d + 8 * N * n**2)


def stream_mix_write(N: int, n: int, d: int, e: int = 2, *, rows: int | None = None,
                     written: int | None = None) -> Bytes:
    """H X + b ⊗ h. Forward reads n + 1 vectors and writes n; backward reads 2n + 1 and writes
    n + 1.

    Arguments:
        rows: how many rows of coefficients there are, if tokens share them.
        written: bytes per number of h, if it has another dtype than the state.
    """
    rows, written = N if rows is None else rows, e if written is None else written
    return Bytes((2 * n * e + written) * N * d + 4 * rows * (n**2 + n),
                 (3 * n * e + 2 * written) * N * d + 8 * rows * (n**2 + n))


def stream_join(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """H X + b ⊗ h, what the next sublayer reads of it, and the n² + 2n coefficients that it
    generates. Forward reads n + 1 vectors and writes n + 1; backward reads 2n + 2 and writes n + 1.
    """
    O, given = n**2 + 2 * n, n**2 + n
    return Bytes((2 * n + 2) * e * N * d + 4 * N * (O + given) + 4 * O * n * d,
                 (3 * n + 3) * e * N * d + 4 * N * (O + 2 * given) + 8 * O * n * d)


def gated_mix(N: int, n: int, d: int, e: int = 2) -> Bytes:
    """(γ Q + (1 − γ) H) X, where each token has u, v, k, β and γ in place of a matrix."""
    return Bytes(2 * n * e * N * d + 4 * N * (3 * n + 2), 3 * n * e * N * d + 8 * N * (3 * n + 2))


def delta_update(N: int, d: int, d_v: int = 1, e: int = 2) -> Bytes:
    """X + β k (vᵀ − kᵀX). Forward reads X and k and writes X; backward reads the gradient too and
    writes two more gradients, of X and of k.
    """
    return Bytes((2 * d_v + 1) * e * N * d + 4 * N * (d_v + 1),
                 (3 * d_v + 2) * e * N * d + 8 * N * (d_v + 1))


def delta_layer(N: int, d: int, d_v: int, e: int = 2) -> Bytes:
    """X + β k (vᵀ − kᵀX), with v and β from linear maps of two more vectors. Forward reads X, k and
    those two, and writes X; backward reads the gradient too and writes the gradients of all.
    """
    maps = (d_v + 1) * (d + 1)
    return Bytes((2 * d_v + 3) * e * N * d + e * maps, (3 * d_v + 6) * e * N * d + 2 * e * maps)


def diagonal_update(N: int, d: int, e: int = 2) -> Bytes:
    """X + β ⊙ (h − α X). Forward reads X, h and β and writes X; backward reads the gradient too and
    writes three gradients.
    """
    return Bytes(4 * e * N * d, 7 * e * N * d)


def sinkhorn(N: int, n: int) -> Bytes:
    """Sinkhorn's projection of n × n logits per token, however many iterations it takes."""
    return Bytes(8 * N * n**2, 12 * N * n**2)


def rms_linear(N: int, D: int, O: int, e: int = 2) -> Bytes:
    """W (x / rms x), with D features and O outputs per token.

    Backward reads x once for both gradients, that of x and that of W.
    """
    return Bytes(e * N * D + 4 * O * (N + D), 2 * e * N * D + 4 * O * (N + 2 * D))


def cayley_rank2(N: int, n: int) -> Bytes:
    """The Cayley transform of (β/2)(u vᵀ − v uᵀ), from u, v and β of each token."""
    return Bytes(4 * N * (2 * n + 1 + n**2), 4 * N * (n**2 + 2 * (2 * n + 1)))


def cayley_skew4(N: int) -> Bytes:
    """The Cayley transform of a skew 4 × 4 matrix per token."""
    return Bytes(128 * N, 192 * N)
