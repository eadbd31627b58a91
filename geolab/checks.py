"""Refuse bad input by name, before it becomes a wrong number."""

import math
from numbers import Integral, Real

import torch
from torch import Tensor


def require_count(name: str, value: int, at_least: int = 1) -> None:
    """Raise ValueError unless `value` is a whole number, at least `at_least`; True and False are none."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if value < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {value}")


def require_number(name: str, value: float, low: float = -math.inf, high: float = math.inf, strict: bool = False) -> None:
    """Raise ValueError unless `value` is a finite real number from `low` to `high`, and neither of them where `strict`."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    if not (low < value < high if strict else low <= value <= high):
        if math.isinf(high):
            wanted = "be positive" if strict and low == 0 else f"be {'above' if strict else 'at least'} {low}"
        elif math.isinf(low):
            wanted = f"be {'below' if strict else 'at most'} {high}"
        else:
            wanted = f"lie strictly between {low} and {high}" if strict else f"be from {low} to {high}"
        raise ValueError(f"{name} must {wanted}, got {value}")


def require_unit(direction: Tensor, name: str = "direction") -> None:
    """Raise ValueError unless every vector along the last axis has length 1, to the precision of its dtype."""
    norms = torch.linalg.vector_norm(direction.detach(), dim=-1)
    tolerance = 10 * direction.shape[-1] ** 0.5 * torch.finfo(direction.dtype).eps
    worst = (norms - 1).abs().max() if norms.numel() else norms.new_zeros(())
    if not worst <= tolerance:  # a NaN fails too
        length = norms.flatten()[(norms.flatten() - 1).abs().argmax()].item()
        raise ValueError(f"{name} must have unit length along its last axis, got length {length:.6g}; "
                         "normalise it with operators.unit_direction")


def require_width(name: str, tensor: Tensor, width: int) -> None:
    """Raise ValueError unless the last axis of `tensor` has `width` features."""
    if tensor.shape[-1] != width:
        raise ValueError(f"{name} must have {width} features along its last axis, got shape {tuple(tensor.shape)}")


def require_square(name: str, matrix: Tensor, size: int | None = None) -> None:
    """Raise ValueError unless the last two axes of `matrix` are equal, and of `size` where one is given."""
    if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2] or (size is not None and size != matrix.shape[-1]):
        wanted = "n × n" if size is None else f"{size} × {size}"
        raise ValueError(f"{name} must be {wanted} along its last two axes, got shape {tuple(matrix.shape)}")


def require_pairs(u: Tensor, v: Tensor, beta: Tensor) -> None:
    """Raise ValueError unless u and v have one shape, and beta is a number, or one for each pair of vectors."""
    if u.shape != v.shape:
        raise ValueError(f"u and v must have the same shape, got {tuple(u.shape)} and {tuple(v.shape)}")
    if beta.ndim and beta.shape != u.shape[:-1]:
        raise ValueError(f"beta must be one number a pair, got {tuple(beta.shape)} with pairs {tuple(u.shape[:-1])}")


def require_option(name: str, got, known) -> None:
    """Raise ValueError, naming what is known, unless `got` is one of them."""
    if got not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {got!r}")
