"""H(z): ways from the logits of a token to a doubly stochastic matrix, by name.

Each is an equation of `geolab.operators`, with its number of logits and a start near the identity.

Legend: n streams, d how near to the identity the start is: about exp(−d) goes to each other stream
that can be reached alone, and with "permutations" to each other permutation.
"""

from collections.abc import Callable
from functools import partial
from math import exp, factorial
from typing import NamedTuple

import torch
from torch import Tensor

from geolab.operators import (
    circulant_mixture,
    kronecker_mixture,
    orthostochastic,
    permutation_mixture,
    sinkhorn,
)
from geolab.operators.polytope import MOST_PERMUTED, permutation_matrices, shift_matrices

MIXES = ("sinkhorn", "permutations", "circulant", "kronecker", "orthostochastic")


class Mix(NamedTuple):
    """A way from logits to doubly stochastic matrices of n streams.

    Attributes:
        count: n -> the number of logits. Raises ValueError for an n that it doesn't take.
        start: n, d -> logits of a matrix near the identity, (count(n)).
        matrix: logits (..., count(n)), n -> H, (..., n, n).
        corners: where H is a mixture of given matrices with weights softmax(logits), n -> these
            matrices, (count(n), n, n).
    """

    count: Callable[[int], int]
    start: Callable[[int, float], Tensor]
    matrix: Callable[[Tensor, int], Tensor]
    corners: Callable[[int], Tensor] | None = None


def mixes(iterations: int = 20, order: str = "column-row", eps: float = 0.0,
          blocks: int = 2) -> dict[str, Mix]:
    """All ways by name.

    "sinkhorn" (mHC) takes n² logits, "permutations" (mHC-lite) n!, "circulant" (C-mHC) n,
    "kronecker" (KromHC) 2 log₂ n, and "orthostochastic" (go-mHC) ns (ns − 1) / 2.

    Arguments:
        iterations, order, eps: for "sinkhorn", those of `operators.sinkhorn`.
        blocks: for "orthostochastic", s.
    """
    skew = partial(_above, blocks=blocks)
    return {
        "sinkhorn": Mix(_square, _diagonal, partial(
            _sinkhorn, iterations=iterations, order=order, eps=eps)),
        "permutations": Mix(_orders, partial(_first, count=_orders), permutation_mixture,
                            permutation_matrices),
        "circulant": Mix(int, partial(_first, count=int), _circulant, shift_matrices),
        "kronecker": Mix(_swaps, _stay, _kronecker),
        "orthostochastic": Mix(skew, partial(_turn, blocks=blocks),
                               partial(orthostochastic, blocks=blocks)),
    }


def _square(n: int) -> int:
    return n * n


def _diagonal(n: int, d: float) -> Tensor:
    return d * torch.eye(n).flatten()


def _sinkhorn(logits: Tensor, n: int, **options) -> Tensor:
    return sinkhorn(logits.unflatten(-1, (n, n)), **options)


def _orders(n: int) -> int:
    if n > MOST_PERMUTED:
        raise ValueError(f"streams must be at most {MOST_PERMUTED} for mix='permutations', got {n}")
    return factorial(n)


def _first(n: int, d: float, count: Callable[[int], int]) -> Tensor:
    return d * (torch.arange(count(n)) == 0)


def _circulant(logits: Tensor, n: int) -> Tensor:
    return circulant_mixture(logits)


def _swaps(n: int) -> int:
    if n & (n - 1):
        raise ValueError(f"streams must be a power of 2 for mix='kronecker', got {n}")
    return 2 * (n.bit_length() - 1)


def _stay(n: int, d: float) -> Tensor:
    return torch.tensor([d, 0.0]).repeat(_swaps(n) // 2)


def _kronecker(logits: Tensor, n: int) -> Tensor:
    return kronecker_mixture(logits.unflatten(-1, (-1, 2)))


def _above(n: int, blocks: int) -> int:
    return n * blocks * (n * blocks - 1) // 2


def _turn(n: int, d: float, blocks: int) -> Tensor:
    # Q is I − 2M to first order, so H_ij is 4 s z²
    return torch.full((_above(n, blocks),), exp(-d / 2) / (4 * blocks) ** 0.5)
