"""Effective rank (MGT eq. 8): the share of all directions that a set of vectors really uses."""

import torch
from torch import Tensor

from geolab.checks import require_option
from geolab.probes.spectra import doubled


def effective_rank(x: Tensor, center: bool = False) -> Tensor:
    """exp(entropy of the normalised singular values) / min(S, D), in (0, 1].

    Arguments:
        x: (..., S, D), S vectors of D features.
        center: whether to subtract the mean vector first. The definition in the paper doesn't; a
            common mean then looks like a collapse (the book's first chapter shows it).
    Returns: (...). 1 when all singular values are equal, 1 / min(S, D) for rank one.
    Raises: ValueError when x is zero, or becomes zero by centring, or has fewer than two axes.
    """
    require_option("center", center, (True, False))
    if x.ndim < 2:
        raise ValueError(f"x must be (..., S, D), got shape {tuple(x.shape)}")
    x = doubled(x)
    if center:
        x = x - x.mean(-2, keepdim=True)
    sigma = torch.linalg.svdvals(x)
    total = sigma.sum(-1, keepdim=True)
    if not (total > 0).all():
        after = " after centring" if center else ""
        raise ValueError(f"x must not be zero{after}: its rank has no share")
    p = sigma / total
    return torch.exp(torch.special.entr(p).sum(-1)) / min(x.shape[-2:])
