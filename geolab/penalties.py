"""What a module adds to the loss of its own accord: `add_penalty` in its forward pass, `collect_penalties` around it."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

_collectors: list[list[Tensor]] = []  # the open ones; a plain list, since torch.compile can follow no ContextVar


@contextmanager
def collect_penalties() -> Iterator[list[Tensor]]:
    """While open, the list that it yields takes up what residuals add with `add_penalty`, in the order of the forward pass."""
    _collectors.append([])
    try:
        yield _collectors[-1]
    finally:
        _collectors.pop()


def add_penalty(penalty: Tensor) -> None:
    """Called by a residual in its forward pass: a scalar that training shall add to the loss. Nobody collecting, nothing kept."""
    if _collectors:
        _collectors[-1].append(penalty)
