"""Terms that a module adds to the training loss by itself.

The module calls `add_penalty` in its forward pass, and training opens `collect_penalties` around
that pass.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

_collectors: list[list[Tensor]] = []  # the open ones; torch.compile can't follow a ContextVar


@contextmanager
def collect_penalties() -> Iterator[list[Tensor]]:
    """Yield a list that takes up what `add_penalty` is given, in the order of the calls."""
    _collectors.append([])
    try:
        yield _collectors[-1]
    finally:
        _collectors.pop()


def add_penalty(penalty: Tensor) -> None:
    """Add a scalar to the training loss. This is a no-op when no collector is open."""
    if _collectors:
        _collectors[-1].append(penalty)
