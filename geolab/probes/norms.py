"""The length of a state, through depth and along a sequence."""

import torch
from torch import Tensor, nn

from geolab.operators import widened


def norm_by_depth(states: list[Tensor]) -> Tensor:
    """The mean Euclidean length of the vectors of each state: [(..., D)] -> (len(states),)."""
    return torch.stack([torch.linalg.vector_norm(widened(state.detach()), dim=-1).mean()
                        for state in states])


@torch.no_grad()
def norm_drift(model: nn.Module, dim: int, length: int = 100, sequences: int = 50,
               seed: int = 0) -> float:
    """The mean over t of | mean over sequences of ‖prediction_t‖ − 1 |, where inputs have length 1.

    This is E-MHC-Geo's norm deviation (its table 18). The inputs are independent random unit
    vectors at every position. The model runs once: it doesn't read its own predictions. A model
    that averages what it has seen must shrink, so this measures copying, not isometry.

    Arguments:
        model: (B, T, dim) -> (B, T, dim).
    """
    generator = torch.Generator().manual_seed(seed)
    x = nn.functional.normalize(torch.randn(sequences, length, dim, generator=generator), dim=-1)
    device = next((p.device for p in model.parameters()), x.device)
    lengths = torch.linalg.vector_norm(model(x.to(device)), dim=-1).mean(0)
    return (lengths - 1).abs().mean().item()
