"""How a gate γ or a rate β is distributed, layer by layer."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor


class Statistics(NamedTuple):
    """Of all numbers of a layer. Each field is (L,)."""

    mean: Tensor
    std: Tensor        # of the numbers themselves, not an estimate: 0 for a single one
    smallest: Tensor
    largest: Tensor
    below: Tensor      # share below the threshold


def statistics_by_layer(values: Iterable[Tensor], threshold: float) -> Statistics:
    """Statistics of each tensor of `values`, one a layer and of any shape, over all its numbers.

    Arguments:
        threshold: where the operator changes its kind. MGT counts β < 0; a gate goes over at ½; with β > 1 the delta
            operator reverses the component along k, with β < 1 it keeps its sign.
    """
    rows = [torch.stack([v.mean(), v.std(correction=0), v.min(), v.max(), (v < threshold).double().mean()])
            for v in (value.detach().double() for value in values)]
    if not rows:
        raise ValueError("values must hold at least one layer")
    return Statistics(*torch.stack(rows, dim=1))
