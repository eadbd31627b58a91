"""Householder reflections: H = I − 2 k kᵀ, with k a unit vector (MGT def. A.1, DDL eq. 2.1).

Legend: d features; ... any leading axes, one reflection each.
"""

import torch
from torch import Tensor

from geolab.checks import require_state, require_unit, require_width
from geolab.operators.precision import widened


def householder_matrix(direction: Tensor) -> Tensor:
    """H = I − 2 k kᵀ, the reflection across the hyperplane orthogonal to k.

    Arguments:
        direction: (..., d), unit vectors k.
    Returns: (..., d, d). Symmetric, orthogonal, its own inverse, determinant −1 (MGT lemma A.2).
    Raises: ValueError when a direction is not of unit length; TypeError when its numbers aren't
        floating-point.
    """
    require_state("direction", direction)
    require_unit(direction)
    identity = torch.eye(direction.shape[-1], dtype=direction.dtype, device=direction.device)
    return identity - 2 * direction.unsqueeze(-1) * direction.unsqueeze(-2)


def reflect(x: Tensor, direction: Tensor) -> Tensor:
    """H x = x − 2 (kᵀx) k, without forming H.

    Arguments:
        x: (..., d).
        direction: (..., d), unit vectors k.
    Returns: (..., d), of the same length as x.
    Raises: ValueError when a direction is not of unit length, or has another width than x;
        TypeError when their numbers aren't floating-point.
    """
    require_state("x", x)
    require_state("direction", direction)
    require_unit(direction)
    require_width("direction", direction, x.shape[-1])
    state, k = widened(x), widened(direction)
    return (state - 2 * (k * state).sum(-1, keepdim=True) * k).to(x.dtype)
