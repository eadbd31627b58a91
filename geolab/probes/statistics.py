"""The distribution of a gate γ or a rate β, layer by layer."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from geolab.checks import require_number, require_real


class Statistics(NamedTuple):
    """Statistics of all numbers of each of L layers. Each field is (L,)."""

    mean: Tensor
    std: Tensor        # of the numbers themselves, not an estimate: 0 for a single one
    smallest: Tensor
    largest: Tensor
    below: Tensor      # the share below the threshold


def statistics_by_layer(values: Iterable[Tensor], threshold: float) -> Statistics:
    """Statistics over all numbers of each tensor of `values`: one tensor of any shape per layer.

    Arguments:
        threshold: the number at which the operator changes its kind. MGT counts β < 0. A gate
            changes sides at ½. The delta operator reverses the component along k for β > 1 and
            keeps its sign for β < 1.
    Raises: ValueError for no layers, a layer without numbers, or a threshold that isn't finite.
    """
    require_number("threshold", threshold)
    values = list(values)
    if not values:
        raise ValueError("values must contain at least one layer")
    for value in values:
        require_real(values=value)
        if not value.numel():
            raise ValueError("values must contain a number in each layer, got a layer of shape "
                             f"{tuple(value.shape)}")
    rows = [torch.stack([v.mean(), v.std(correction=0), v.min(), v.max(),
                         (v < threshold).double().mean()])
            for v in (value.detach().double() for value in values)]
    return Statistics(*torch.stack(rows, dim=1))
