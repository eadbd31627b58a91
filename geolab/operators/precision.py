"""Operators keep their precision under autocast.

Rounded to bfloat16, a rotation is orthogonal only to 1e-2. What computes an operator's few numbers
works in float32 at least. What applies them to a state works in the state's dtype. An operator says
so in its body, in two steps: it widens its arguments (or casts them to the state's dtype), and it
leaves autocast where it multiplies matrices, which autocast would round. A shared decorator would
be shorter, but torch.compile counts recompilations per code object, and operators that share one
use up each other's limit.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def widened(x: Tensor) -> Tensor:
    """The tensor in float32 if it has half precision, and as it is otherwise."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def outside_autocast(x: Tensor) -> AbstractContextManager:
    """A context in which autocast is off for the device of x."""
    device = x.device.type
    # A meta tensor has no autocast. `is_autocast_available` would know, but PyTorch 2.11 can't
    # compile it.
    if device != "meta" and torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return nullcontext()
