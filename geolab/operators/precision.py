"""Operators keep their precision under autocast: rounded to bfloat16, a rotation is orthogonal to 1e-2 only.

What makes an operator's few numbers works in float32 at least; what applies them to a state works in the state's dtype.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps

import torch
from torch import Tensor


def widened(x):
    """A half-precision tensor as float32; anything else as it is."""
    return x.float() if isinstance(x, Tensor) and x.dtype in (torch.bfloat16, torch.float16) else x


def full_precision(operator: Callable) -> Callable:
    """The function outside autocast, with half-precision arguments widened to float32: so is what it returns."""
    @wraps(operator)
    def wide(first: Tensor, *others, **named):
        with _outside_autocast(first):
            return operator(widened(first), *[widened(x) for x in others], **{name: widened(x) for name, x in named.items()})

    return with_own_code(wide)


def in_state_dtype(operator: Callable) -> Callable:
    """The function outside autocast, with all tensors in the dtype of the first, the state: so is what it returns."""
    @wraps(operator)
    def applied(state: Tensor, *others, **named):
        def cast(x):
            return x.to(state.dtype) if isinstance(x, Tensor) else x

        with _outside_autocast(state):
            return operator(state, *map(cast, others), **{name: cast(x) for name, x in named.items()})

    return with_own_code(applied)


def with_own_code(wrapper: Callable) -> Callable:
    """torch.compile counts recompilations by code object: operators that shared one would use up each other's limit."""
    wrapper.__code__ = wrapper.__code__.replace(co_name=wrapper.__name__)
    return wrapper


_AS_IT_IS = nullcontext()


def _outside_autocast(x: Tensor):
    device = x.device.type
    inside = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)  # a meta tensor has no autocast
    return torch.autocast(device, enabled=False) if inside else _AS_IT_IS
