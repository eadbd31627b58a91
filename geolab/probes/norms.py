"""How the length of a state changes through depth and along a sequence."""

import torch
from torch import Tensor, nn

from geolab.checks import require_count


def norm_by_depth(states: list[Tensor]) -> Tensor:
    """The mean Euclidean length of the vectors of each state: [(..., D)] -> (len(states),)."""
    return torch.stack([torch.linalg.vector_norm(state.detach(), dim=-1).mean() for state in states])


@torch.no_grad()
def norm_by_position(model: nn.Module, dim: int, length: int = 100, sequences: int = 50, seed: int = 0) -> Tensor:
    """(length,): the mean over sequences of ‖prediction_t‖, relative to the inputs, which have length 1.

    E-MHC-Geo's Table 18 has the one at position 100, and the mean distance from 1, `norm_drift`. The inputs are independent
    random unit vectors at every position, and the model sees them once: it is no roll-out. A model that averages what it has
    seen must shrink, so this measures copying, not isometry.

    Arguments:
        model: (B, T, dim) -> (B, T, dim).
    """
    generator = torch.Generator().manual_seed(seed)
    x = nn.functional.normalize(torch.randn(sequences, length, dim, generator=generator), dim=-1)
    device = next((p.device for p in model.parameters()), x.device)
    return torch.linalg.vector_norm(model(x.to(device)), dim=-1).mean(0)


def norm_drift(model: nn.Module, dim: int, length: int = 100, sequences: int = 50, seed: int = 0) -> float:
    """E-MHC-Geo's norm deviation (its Table 18): the mean over t of | `norm_by_position` − 1 |, of the same arguments."""
    return (norm_by_position(model, dim, length, sequences, seed) - 1).abs().mean().item()


@torch.no_grad()
def roll_out(model: nn.Module, start: Tensor, steps: int, window: int | None = None) -> Tensor:
    """The model fed with its own predictions, whose lengths show its drift over a long horizon: (B, T, dim) -> (B, steps, dim).

    Arguments:
        model: (B, T, dim) -> (B, T, dim), the next vector at each position.
        start: the first inputs.
        window: how many of the last vectors the model reads, at most; a Transformer reads `max_length`. None: all.
    Raises: ValueError for steps or a window below 1.
    """
    require_count("steps", steps)
    if window is not None:
        require_count("window", window)
    x = start
    for _ in range(steps):
        x = torch.cat([x, model(x if window is None else x[:, -window:])[:, -1:]], dim=1)
    return x[:, start.shape[1]:]
