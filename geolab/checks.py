"""Refuse bad input by name, before it becomes a wrong number.

`options` flattens what decides how an object computes, so that two objects can be compared by name.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from itertools import zip_longest
from numbers import Integral, Number, Real
from typing import Any

import torch
from torch import Tensor, nn


def require_option(name: str, got: object, known: Collection) -> None:
    """Raise ValueError, with the list of known values, unless `got` is one of them.

    It must have the type of that value too: 1 isn't True.
    """
    if not any(type(got) is type(one) and got == one for one in known):
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {got!r}")


def require_options(name: str, got: object, known: Collection) -> None:
    """Raise ValueError unless `got` is a tuple, a list or a set of known values."""
    if not isinstance(got, (tuple, list, set, frozenset)):
        raise ValueError(f"{name} must be a tuple of some of {', '.join(map(repr, known))}, "
                         f"got {got!r}")
    for value in got:
        require_option(name, value, known)


def require_effect(given: Mapping[str, object], idle: Mapping[str, str]) -> None:
    """Raise ValueError for an option that was given though another one leaves it without effect.

    Arguments:
        given: the options that were given, by name.
        idle: for each option without effect, what leaves it so, such as "dynamic=False".
    """
    for name, value in given.items():
        if name in idle:
            raise ValueError(f"{name} must be left out where {idle[name]}, which leaves it without "
                             f"effect, got {value!r}")


def require_count(name: str, value: int, at_least: int = 1) -> None:
    """Raise ValueError unless `value` is a whole number, at least `at_least`, and not a bool."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ValueError(f"{name} must be a whole number, got {value!r}")
    if value < at_least:
        raise ValueError(f"{name} must be at least {at_least}, got {value}")


def require_number(name: str, value: float, low: float = -math.inf, high: float = math.inf,
                   strict: bool = False) -> None:
    """Raise ValueError unless `value` is a finite real number from `low` to `high`.

    With `strict`, `low` and `high` themselves are refused too. A bool is no number.
    """
    # a comparison, since torch.compile can't follow math.isfinite
    if (isinstance(value, bool) or not isinstance(value, Real)
            or not -math.inf < value < math.inf):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    if not (low < value < high if strict else low <= value <= high):
        if math.isinf(high):
            bound = f"above {low}" if strict else f"at least {low}"
            wanted = "be positive" if strict and low == 0 else f"be {bound}"
        elif math.isinf(low):
            wanted = f"be {'below' if strict else 'at most'} {high}"
        else:
            between = f"lie strictly between {low} and {high}"
            wanted = between if strict else f"be from {low} to {high}"
        raise ValueError(f"{name} must {wanted}, got {value}")


def require_unit(direction: Tensor, name: str = "direction") -> None:
    """Raise ValueError unless each vector (last axis) has length 1, to the dtype's precision."""
    norms = torch.linalg.vector_norm(direction.detach(), dim=-1)
    while torch._C._functorch.is_functorch_wrapped_tensor(norms):  # vmap hides the numbers
        norms = torch._C._functorch.get_unwrapped(norms)
    tolerance = 10 * direction.shape[-1] ** 0.5 * torch.finfo(direction.dtype).eps
    worst = (norms - 1).abs().max() if norms.numel() else norms.new_zeros(())
    if not worst <= tolerance:  # written so that a NaN fails too
        length = norms.flatten()[(norms.flatten() - 1).abs().argmax()].item()
        raise ValueError(f"{name} must have unit length along its last axis, got length "
                         f"{length:.6g}; normalise it with operators.unit_direction")


def require_state(name: str, tensor: Tensor, axes: int = 1) -> None:
    """Raise TypeError unless a tensor has floating-point numbers, and ValueError for fewer axes.

    Others are cast to its dtype: a whole number would round their weights away.
    """
    if not tensor.is_floating_point():
        raise TypeError(f"{name} must have a floating-point dtype, got {tensor.dtype}")
    if tensor.ndim < axes:
        raise ValueError(f"{name} must have at least {axes} {'axis' if axes == 1 else 'axes'}, "
                         f"got shape {tuple(tensor.shape)}")


def require_real(**given: Tensor | float) -> None:
    """Raise TypeError for a tensor of complex numbers, half of which a cast would drop, and
    ValueError for a number that isn't finite.
    """
    for name, value in given.items():
        if isinstance(value, Tensor):
            if value.is_complex():
                raise TypeError(f"{name} must have real numbers, got {value.dtype}")
        else:
            require_number(name, value)


def require_width(name: str, tensor: Tensor, width: int) -> None:
    """Raise ValueError unless the last axis of `tensor` has `width` features."""
    if tensor.shape[-1:] != (width,):
        raise ValueError(f"{name} must have {width} features along its last axis, "
                         f"got shape {tuple(tensor.shape)}")


def require_leading(name: str, tensor: Tensor, trailing: int, leading: Sequence[int]) -> None:
    """Raise ValueError unless the axes of `tensor` before its `trailing` last ones broadcast to
    `leading`, the axes of x in the same place.
    """
    if tensor.ndim < trailing:  # a slice would count from the end
        raise ValueError(f"{name} must have at least {trailing} axes, got shape "
                         f"{tuple(tensor.shape)}")
    own = tensor.shape[:tensor.ndim - trailing]
    if own != leading and (len(own) > len(leading) or any(
            size not in (1, there) for size, there in zip(own[::-1], leading[::-1], strict=False))):
        raise ValueError(f"{name} must have leading axes that broadcast to those of x, "
                         f"{tuple(leading)}, got shape {tuple(tensor.shape)}")


def require_together(**leading: Sequence[int]) -> None:
    """Raise ValueError unless the leading axes of several tensors broadcast to common ones."""
    for sizes in zip_longest(*(axes[::-1] for axes in leading.values()), fillvalue=1):
        wide = [size for size in sizes if size != 1]
        if any(size != wide[0] for size in wide):
            got = " and ".join(str(tuple(axes)) for axes in leading.values())
            raise ValueError(f"{' and '.join(leading)} must have leading axes that broadcast to "
                             f"common ones, got {got}")


def require_norm(norm: tuple[Tensor, float] | Callable | None, features: int) -> None:
    """Raise ValueError unless an RMS norm, (weight, guard), has one weight per feature, and
    TypeError for complex ones. Any other function checks its own.
    """
    if isinstance(norm, tuple):
        require_real(norm=norm[0])
        require_width("norm", norm[0], features)
        require_leading("norm", norm[0], 1, ())


def require_maps(weight: Tensor, scale: Tensor, bias: Tensor) -> None:
    """Raise TypeError for complex numbers, and ValueError unless s and bias are vectors."""
    require_real(weight=weight, scale=scale, bias=bias)
    require_leading("scale", scale, 1, ())
    require_leading("bias", bias, 1, ())


def require_write(x: Tensor, matrix: Tensor, weights: Tensor, update: Tensor) -> None:
    """Raise ValueError unless H, b and h make a write of the streams x, H X + b ⊗ h, and TypeError
    for complex numbers.
    """
    require_real(matrix=matrix, weights=weights, update=update)
    *tokens, n, d = x.shape
    require_square("matrix", matrix, n)
    require_width("weights", weights, n)
    require_width("update", update, d)
    require_leading("matrix", matrix, 2, tokens)
    require_leading("weights", weights, 1, tokens)
    require_leading("update", update, 1, tokens)


def require_square(name: str, matrix: Tensor, size: int | None = None) -> None:
    """Raise ValueError unless the last two axes of `matrix` are equal, and are `size` if given."""
    rows, columns = matrix.shape[-2:] if matrix.ndim >= 2 else (0, -1)
    if rows != columns or (size is not None and size != rows):
        wanted = "n × n" if size is None else f"{size} × {size}"
        raise ValueError(f"{name} must be {wanted} along its last two axes, "
                         f"got shape {tuple(matrix.shape)}")


def require_pairs(u: Tensor, v: Tensor, beta: Tensor) -> None:
    """Raise ValueError unless u and v have one shape, with one beta per pair or one for all."""
    if u.shape != v.shape:
        raise ValueError(f"u and v must have the same shape, got {tuple(u.shape)} "
                         f"and {tuple(v.shape)}")
    if beta.ndim and beta.shape != u.shape[:-1]:
        raise ValueError(f"beta must be one number per pair, got shape {tuple(beta.shape)} "
                         f"for pairs of shape {tuple(u.shape[:-1])}")


# ---------------------------------------------------------------- what two runs have in common

SAME = {"training", "recompute", "gradient_checkpointing"}  # attributes that change no result


def model_options(name: str, model: nn.Module) -> dict[str, str]:
    """Write out what decides how a model computes: {"model.layers.0.norm.eps": "1e-05", …}.

    Each module inside it contributes its class, its attributes, and the dtypes and shapes of its
    parameters and buffers. The result doesn't depend on docstrings, comments, `extra_repr`, the
    values of parameters, or what is computed again to save memory.
    """
    found = {}
    for path, module in model.named_modules(prefix=name):
        attributes = {**vars(module), **dict(module.named_parameters(recurse=False)),
                      **dict(module.named_buffers(recurse=False))}
        attributes = {key: value for key, value in attributes.items() if key not in SAME}
        found |= options(path, attributes) | {path: type(module).__name__}
    return found


def options(name: str, value: Any, inside: bool = False) -> dict[str, str]:
    """Write out a value by name, and its parts by path: {"task": "Echo", "task.dim": "4"}.

    This covers numbers, texts, None, dtypes, tensors (as dtype and shape), functions and classes
    (by name), partials (function and arguments), dataclasses (class and fields), tuples, lists and
    dicts. Any other object gives its class and its attributes. If it lies `inside` another one, it
    gives its class alone. Names that begin with "_" are left out.
    """
    if isinstance(value, Tensor):
        return {name: f"{value.dtype} {tuple(value.shape)}"}
    if _plain(value):
        return {name: str(value)}
    if isinstance(value, partial):
        parts = {"func": value.func, "args": value.args, **value.keywords}
    elif isinstance(value, (tuple, list)):
        parts = dict(enumerate(value))
    elif isinstance(value, dict):
        parts = value
    elif is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
    else:
        parts = {} if inside else getattr(value, "__dict__", {})
    found = {name: getattr(value, "__qualname__", type(value).__name__)}
    for key, part in parts.items():
        if not str(key).startswith("_"):
            found |= options(f"{name}.{key}", part, inside=True)
    return found


def _plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_plain, value))
    return value is None or isinstance(value, (Number, str, torch.dtype))
