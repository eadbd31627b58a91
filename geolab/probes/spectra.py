"""Eigenvalues, singular values and determinant of a linear map, and any map's Jacobian."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from geolab.checks import require_square


class Spectrum(NamedTuple):
    """The spectrum of a square matrix, or of each one of a batch."""

    eigenvalues: Tensor       # (..., d), complex
    singular_values: Tensor   # (..., d), largest first
    determinant: Tensor       # (...)


def doubled(x: Tensor) -> Tensor:
    """The tensor in float64, or in complex128, without a graph."""
    return x.detach().to(torch.promote_types(x.dtype, torch.float64))


def spectrum(matrix: Tensor) -> Spectrum:
    """The spectrum of (..., d, d) matrices, computed in float64, or complex128, for every dtype.

    Raises: ValueError when the last two axes differ.
    """
    require_square("matrix", matrix)
    matrix = doubled(matrix)
    return Spectrum(torch.linalg.eigvals(matrix), torch.linalg.svdvals(matrix),
                    torch.linalg.det(matrix))


def jacobian(f: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """∂f/∂x at one point, both flattened: (outputs, inputs)."""
    x = x.detach()
    return torch.autograd.functional.jacobian(f, x).reshape(-1, x.numel())
