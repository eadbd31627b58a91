"""What the residuals of a trained network do at a batch, layer by layer, as tensors that probes take.

    layers = operators_by_layer(model, x)
    gain = composite_gain(torch.stack([layer.mix for layer in layers]))
    beta = statistics_by_layer([layer.beta for layer in layers], threshold=1)
    smallest = [spectrum(shortcut_matrix(layer)).singular_values[..., -1].min() for layer in layers]
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from geolab.operators import delta_shortcut
from geolab.probes.depth import states


@torch.no_grad()
def operators_by_layer(model: nn.Module, x: Tensor) -> list[NamedTuple]:
    """What each sublayer's residual computes from its state, by name, without gradients.

    Arguments:
        model: a Transformer, or a ContinuousModel or TokenModel around one.
        x: an input of the model.
    Returns: one named tuple a sublayer; `()` for a residual that computes nothing, as the additive one.
    """
    layers = getattr(model, "trunk", model).layers
    return [layer.residual.observe(state, layer.sublayer) for layer, state in zip(layers, states(model, layers, x))]


def shortcut_matrix(operator: NamedTuple) -> Tensor:
    """The matrix M that the shortcut multiplies a token's state by, its coefficients held.

    Arguments:
        operator: an entry of `operators_by_layer`. M is its property `shortcut`, or else its field `mix`, or I − β k kᵀ of its
            fields `direction` and `beta`.
    Returns: (B, T, m, m), B and T 1 where one M serves all. A token's state, flattened, is multiplied by M ⊗ I. m is n for n
        streams, whose features all meet the same matrix; D for the delta operators, whose value channels do, and for MGT's
        diagonal; and 1 for a residual that leaves the state as it is.
    Raises: ValueError for another operator.
    """
    if hasattr(operator, "shortcut"):
        return operator.shortcut
    fields = getattr(operator, "_fields", ())
    if "mix" in fields:
        return operator.mix
    if "direction" in fields and "beta" in fields:
        k = operator.direction
        identity = torch.eye(k.shape[-1]).to(k).expand(*k.shape, -1)
        return delta_shortcut(identity, k, operator.beta)
    raise ValueError(f"operator must have a shortcut, or the field mix, or direction and beta, got {', '.join(fields) or 'none'}")
