"""Residuals of released models: the code of the installed transformers beside ours.

A row runs the library's own decoder layers, with each attention and MLP replaced by a small fixed
map, from the embedding to what its last norm gets. Ours has the same maps. Random weights show
every sign, order and constant; a published start often hides them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

import torch
from torch import Tensor, nn

from geolab.models.pretrained import without_foreign_torchvision
from studies.parity.public import Agreement, difference, require_all

WIDTH, BATCH, POSITIONS = 12, 2, 5


@dataclass(frozen=True)
class Installed:
    """A residual of the installed transformers, with the one of this book that computes the same.

    Both networks map (B, T, D) -> (B, T, D). Their sublayers are `fixed` maps, without weights.
    """

    label: str                       # of the row, such as "deepseek-v4"
    name: str                        # of the model, as its authors write it
    module: str                      # in transformers, such as "models.deepseek_v4"
    ours: str                        # such as 'MHC(order="column-row", eps=1e-6)'
    theirs: Callable[[], nn.Module]  # with random weights
    build: Callable[[], nn.Module]
    translate: Callable[[dict[str, Tensor]], dict[str, Tensor]]  # their weights -> ours, by name
    differs: str = ""                # what the row leaves out


def library(module: str) -> ModuleType:
    """The module of the installed transformers of this name, such as "models.beam.modeling_beam".

    It is imported when a row runs, since the library takes seconds.
    """
    with without_foreign_torchvision():
        return import_module(f"transformers.{module}")


def fixed(seed: int) -> Callable[[Tensor], Tensor]:
    """A causal map (B, T, D) -> (B, T, D) that stands for the sublayer of that number."""
    matrix = torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(seed)) / WIDTH ** 0.5
    return lambda x: (x.cumsum(1) @ matrix.to(x)).tanh()


def randomise(module: nn.Module, std: float = 0.5, seed: int = 0) -> nn.Module:
    """Add noise to every weight of the module, so that none keeps its published start."""
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in module.parameters():
            weight.add_(std * torch.randn(weight.shape, generator=noise))
    return module


def installed_agreement(row: Installed) -> Agreement:
    """Give ours the weights of the library's network, and compare outputs and gradients."""
    theirs, ours = row.theirs(), row.build()
    noise = torch.Generator().manual_seed(1)
    x, cotangent = (torch.randn(BATCH, POSITIONS, WIDTH, generator=noise) for _ in range(2))
    weights = {name: weight.detach().clone() for name, weight in theirs.named_parameters()}
    outputs, gradients = [], []
    for network, translate in ((theirs, dict), (ours, row.translate)):
        leaves = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
        leaf, translated = x.clone().requires_grad_(), translate(leaves)
        if network is ours:
            require_all(row.label, ours, translated)
        outputs.append(torch.func.functional_call(network, translated, (leaf,)))
        (outputs[-1] * cotangent).sum().backward()
        gradients.append({name: part.grad for name, part in (leaves | {"input": leaf}).items()})
    expected, found = gradients
    floor = max(float(g.abs().max()) for g in expected.values() if g is not None) / 100
    differences = {name: difference(found[name], torch.zeros(1) if g is None else g, floor)
                   for name, g in expected.items()}
    worst = max(differences, key=differences.__getitem__)
    return Agreement(difference(outputs[1], outputs[0].detach()), differences[worst], worst)
