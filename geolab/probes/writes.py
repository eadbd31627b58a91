"""The writes of a residual network's sublayers, along the state and over each other.

    x_l = x_{l−1} + F_l,   hence   x_L = x_0 + F_1 + … + F_L

Each F is a write, and x_0 is the first one. A write along −x takes something away, though it is
added: F = −β k (kᵀx) is the delta rule's step with the value 0 (the book's chapter on the delta
operator).

Legend: β `beta`, k `direction`; D width; ... any axes, such as batch and positions.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from geolab.operators import widened


def share_along(x: Tensor, write: Tensor) -> Tensor:
    """⟨F, x⟩ / ⟨x, x⟩: the share of the state that a write adds along it; below 0 the write erases.

    Arguments:
        x, write: (..., D).
    Returns: (...); nan where x is zero.
    """
    x, write = widened(x), widened(write)  # float16 holds no square of a state's length
    return (write * x).sum(-1) / x.square().sum(-1)


def delta_rate(x: Tensor, write: Tensor, direction: Tensor | None = None) -> Tensor:
    """β = −⟨k, F⟩ / ⟨k, x⟩, so that kᵀ(x + F) = (1 − β) kᵀx.

    β = 1 erases the component along k, β in (0, 2) makes it smaller, and β < 0 makes it grow.

    Arguments:
        x, write: (..., D).
        direction: k, (D,) or (..., D), of any length. None takes k along F, so that x + F is
            x − β k (kᵀx) exactly, with k of length 1.
    Returns: (...); infinite or nan where x has no component along k.
    """
    x, write = widened(x), widened(write)
    k = write if direction is None else widened(direction)
    return -(k * write).sum(-1) / (k * x).sum(-1)


class Pairs(NamedTuple):
    """The cosines of each write with each earlier one, over all tokens.

    Each field is (N, N), nan from the diagonal on.
    """

    cosine: Tensor     # its mean
    negative: Tensor   # the share of tokens where it is below 0


def between_writes(writes: Sequence[Tensor], center: bool = True) -> Pairs:
    """Cosines between all pairs of writes, token by token: row i, column j for j before i.

    A negative entry says that write i takes away some of what write j has added.

    Arguments:
        writes: N tensors (..., D), with at least one axis before D, such as what
            `geolab.graft.residual_stream(model, x).writes()` gives.
        center: whether each write's mean over all tokens is subtracted first, since a write that is
            the same everywhere says nothing about a token.
    Raises: ValueError for fewer than two writes.
    """
    if len(writes) < 2:
        raise ValueError(f"writes must be at least 2, got {len(writes)}")
    flat = torch.stack([write.detach().flatten(0, -2).double() for write in writes])   # (N, B T, D)
    flat = flat - flat.mean(1, keepdim=True) if center else flat
    unit = torch.nn.functional.normalize(flat, dim=-1)
    cosines = torch.stack([(unit * later).sum(-1) for later in unit])                  # (N, N, B T)
    before = torch.ones(len(flat), len(flat)).tril(-1).bool()
    return Pairs(*(torch.where(before, found, torch.nan).float()
                   for found in (cosines.mean(-1), (cosines < 0).double().mean(-1))))


def token_jacobian(f: Callable[[Tensor], Tensor], x: Tensor, position: int) -> Tensor:
    """∂ f(x)_t / ∂ x_t of one token t, with all others held: (D, D).

    Arguments:
        f: (1, T, D) -> (1, T, D), such as the update of a sublayer with its context.
        x: (1, T, D).
        position: of the token; a negative one counts from the end.
    Raises: ValueError for more than one sequence, or a token that it doesn't have.
    """
    if x.ndim != 3 or len(x) != 1:
        raise ValueError(f"x must be one sequence, (1, T, D), got shape {tuple(x.shape)}")
    count = x.shape[1]
    if not -count <= position < count:
        raise ValueError(f"position must be one of {count} tokens, from {-count} to {count - 1}, "
                         f"got {position}")
    x, position = x.detach(), position % count

    def at(token: Tensor) -> Tensor:
        here = torch.arange(x.shape[1])[:, None] == position
        return f(torch.where(here, token, x))[0, position]

    with sdpa_kernel(SDPBackend.MATH):  # the fused kernels have no rule for a batch of cotangents
        return torch.func.jacrev(at)(x[0, position])
