"""Modules add penalties to the training loss by themselves.

The module calls `add_penalty` in its forward pass, and training opens `collect_penalties` around
that pass. Where a backward pass computes a forward pass again, its penalties aren't added a second
time.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor


class _Open(threading.local):  # torch.compile can't follow a ContextVar
    def __init__(self):
        self.collectors: list[tuple[list[Tensor], bool]] = []


_open = _Open()


@contextmanager
def collect_penalties() -> Iterator[list[Tensor]]:
    """Yield a list that receives the penalties of this thread's calls of `add_penalty`, in order.
    """
    _open.collectors.append(([], torch.is_grad_enabled()))
    try:
        yield _open.collectors[-1][0]
    finally:
        _open.collectors.pop()


def add_penalty(penalty: Tensor) -> None:
    """Add a scalar to the training loss. This is a no-op when no collector is open.

    Raises: ValueError for anything but a scalar tensor; RuntimeError where gradients are off and
        were on when the collector was opened, as inside reentrant checkpointing: the penalty would
        be counted and teach nothing.
    """
    if not isinstance(penalty, Tensor) or penalty.ndim:
        got = f"shape {tuple(penalty.shape)}" if isinstance(penalty, Tensor) else f"{penalty!r}"
        raise ValueError(f"penalty must be a scalar tensor, got {got}")
    if not _open.collectors or _in_backward():
        return
    penalties, with_gradients = _open.collectors[-1]
    if with_gradients and not torch.is_grad_enabled():
        raise RuntimeError("penalty must have a gradient while training, got one under "
                           "torch.no_grad, as reentrant checkpointing computes it; checkpoint "
                           "with use_reentrant=False")
    penalties.append(penalty)


def _in_backward() -> bool:
    # torch.compile can't trace this check, and compiles no backward pass through this code
    return not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1
