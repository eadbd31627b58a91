"""Operators hand over to their kernels: see `geolab.kernels`."""

from collections.abc import Callable
from functools import wraps

from torch import Tensor

from geolab import kernels
from geolab.operators.precision import with_own_code


def with_kernel(operator: Callable) -> Callable:
    """The operator, or its twin of the same name where `kernels.serves` its first argument."""
    if operator.__name__ not in kernels.TWINS:  # nothing here could run one
        return operator

    @wraps(operator)
    def dispatched(first: Tensor, *others, **named):
        if kernels.serves(first):
            return kernels.TWINS[operator.__name__](first, *others, **named)
        return operator(first, *others, **named)

    return with_own_code(dispatched)
