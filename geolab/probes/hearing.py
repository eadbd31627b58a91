"""The input of each sublayer as a sum over the outputs of those before it: who hears whom.

    u_t = Σ_{s<t} A_ts y_s,   A_ts = a_tᵀ H_{t−1} ⋯ H_{s+1} b_s

y_0 is the embedding and y_s the output of sublayer s. u_t is the input of sublayer t, before its
norm, and the last row is what the head gets. The plain residual has A_ts = 1. So one triangle of
numbers says what any residual does that is linear once its coefficients are held: n streams,
attention over depth (arXiv 2603.15031), or an average over depth (DenseFormer, arXiv 2402.02622).

Legend: S sublayers, B batch, T positions, D width.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from geolab.probes.held import Run, held_run


class DepthWeights(NamedTuple):
    """Σ_s weights[t, s] ⊙ outputs[s] = inputs[t], for each of S + 1 rows t."""

    weights: Tensor   # A: (S + 1, S + 1, B, T, D), zero for s > t
    outputs: Tensor   # y_0 … y_S: (S + 1, B, T, D)
    inputs: Tensor    # u_1 … u_S and what the head gets: (S + 1, B, T, D)


def depth_weights(model: nn.Module, x: Any) -> DepthWeights:
    """The weight with which each sublayer hears the embedding and each sublayer before it.

    The coefficients have the values that they have at this input, feature by feature: n streams
    give all features the same weight, LayerScale gives each its own. The model runs once, as it is.
    The weights take (S + 1)² B T D numbers.

    Arguments:
        model: any network with one stack of residuals in it, such as one that was grafted.
        x: an input of the model.
    Raises: ValueError for a model that runs no residuals, or several stacks of them; and, by its
        name, for a residual whose sublayers' inputs aren't such sums. This is measured. A delta
        residual's shortcut multiplies features with each other, so its A_ts is a D × D matrix. A
        residual may also add a constant, or weigh the state by what `held.py` doesn't hold, or give
        attention several inputs; and a norm may stand behind it.
    """
    return weights_of(held_run(model, x))


@torch.enable_grad()
def weights_of(run: Run) -> DepthWeights:
    """The same of a run."""
    outputs = [run.entry, *(step.said for step in run.steps)]
    inputs = [*(step.heard for step in run.steps), run.exit]
    shapes = {tuple(tensor.shape) for tensor in (*outputs, *inputs)}
    if len(shapes) > 1:
        raise ValueError(f"{_names(run)} must have as many features at the network's ends as in a "
                         f"sublayer, got the shapes {', '.join(map(str, sorted(shapes)))}")
    y, u = torch.stack(outputs).detach(), torch.stack(inputs).detach()
    weights = y.new_zeros(len(u), *y.shape)
    close = torch.finfo(y.dtype).eps ** 0.5
    for t, heard in enumerate(inputs):
        if heard.requires_grad:
            weights[t, :t + 1] = torch.stack(torch.autograd.grad(
                heard.sum(), outputs[:t + 1], retain_graph=True, materialize_grads=True))
        away, size = ((weights[t] * y).sum(0) - u[t]).norm(), u[t].norm()
        if not away <= close * size:
            place = f"sublayer {t + 1}" if t < len(run.steps) else "the head"
            raise ValueError(
                f"the input of {place} must be a sum of the outputs before it, with a weight for "
                f"each feature; with {_names(run)} it is {away / size:.2g} away from one, relative "
                "to its norm. Either A_ts is a D × D matrix, as for a delta residual; or a step "
                "adds a constant; or a norm stands behind the residual; or a weight isn't given by "
                "a method `coefficients`")
    return DepthWeights(weights, y, u)


def _names(run: Run) -> str:
    return ", ".join(sorted({type(step.residual).__name__ for step in run.steps}))
