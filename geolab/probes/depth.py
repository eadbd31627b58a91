"""States of the forward pass and gradients of the backward pass, at each layer of a network."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn


@torch.no_grad()
def states(model: nn.Module, layers: Iterable[nn.Module], x: Tensor) -> list[Tensor]:
    """The input of the first of `layers` and the output of each, in the order in which they run.

    Where a layer takes or returns several values, the first one counts.
    """
    layers, seen, hooks = list(layers), [], []
    if not layers:
        raise ValueError("layers must contain at least one module")
    hooks.append(layers[0].register_forward_pre_hook(
        lambda module, args, named: seen.append(next(iter((*args, *named.values())))),
        with_kwargs=True))
    hooks += [layer.register_forward_hook(lambda module, args, output: seen.append(
        output[0] if isinstance(output, tuple) else output)) for layer in layers]
    try:
        model(x)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def gradient_norms(loss: Tensor, parameters: Iterable[Tensor]) -> Tensor:
    """The Frobenius norms of ∂loss/∂W for each W of `parameters`: (number of parameters,).

    The graph of the loss is kept.
    """
    gradients = torch.autograd.grad(loss, list(parameters), retain_graph=True)
    return torch.stack([gradient.norm() for gradient in gradients])
