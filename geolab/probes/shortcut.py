"""The coefficients of a network's residuals at a batch, layer by layer, as tensors for probes.

    layers = operators_by_layer(model, x)
    gain = composite_gain(torch.stack([layer.mix for layer in layers]))
    beta = statistics_by_layer([layer.beta for layer in layers], threshold=1)
    smallest = [spectrum(shortcut_matrix(layer)).singular_values[..., -1].min() for layer in layers]
"""

from collections.abc import Callable
from dataclasses import is_dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from geolab.operators import delta_shortcut


class StepAlone(NamedTuple):
    """The step of a residual at a state, for a residual that declares no coefficients.

    Like a tuple without fields, it is false.
    """

    residual: nn.Module
    state: Tensor          # (B, T, ...)

    def __bool__(self) -> bool:
        return False

    @property
    @torch.enable_grad()
    def shortcut(self) -> Tensor:
        """The Jacobian of the step with the sublayer's output held at zero, (B, T, m, m).

        It is ∂ new state / ∂ state of each token, both flattened to m numbers, where the token is a
        sequence by itself. For a residual that is linear in the state, this is the matrix that
        multiplies the state. Otherwise it contains the derivative of the coefficients too; a
        residual that declares them in `coefficients` doesn't need this form.
        """
        tokens = self.state.detach().flatten(0, 1).unsqueeze(1).requires_grad_()  # (B T, 1, ...)
        new = self.residual(tokens, lambda x: 0 * x).flatten(1)                   # (B T, m)
        rows = [torch.autograd.grad(column.sum(), tokens, retain_graph=True)[0].flatten(1)
                for column in new.unbind(1)]
        return torch.stack(rows, dim=1).unflatten(0, self.state.shape[:2])


@torch.no_grad()
def operators_by_layer(model: nn.Module, x: Tensor) -> list[NamedTuple]:
    """The coefficients that each sublayer's residual computes from its state, without gradients.

    Arguments:
        model: any network with residuals in it, such as one that was grafted. Its residuals are the
            modules that have a method `observe`.
        x: an input of the model.
    Returns: one named tuple per sublayer, in the order in which they run; a `StepAlone`, which is
        false, for a residual without coefficients, such as the additive one.
    Raises: ValueError for a model in which no residual runs.
    """
    steps: list[tuple] = []

    def note(residual: nn.Module, args: tuple) -> tuple:
        state, sublayer = args
        steps.append((residual, state, _remembering(sublayer)))
        return steps[-1][1:]

    hooks = [module.register_forward_pre_hook(note) for module in model.modules()
             if hasattr(module, "observe")]
    try:
        model(x)
    finally:
        for hook in hooks:
            hook.remove()
    if not steps:
        raise ValueError(f"model must run residuals, got {type(model).__name__}, which runs none")
    return [residual.observe(state, sublayer) or StepAlone(residual, state)
            for residual, state, sublayer in steps]


def _remembering(sublayer: Callable) -> Callable:
    """Wrap a sublayer so that it runs once at each input: a second run would fill a cache of keys
    twice.
    """
    f = sublayer.f if is_dataclass(sublayer) else sublayer
    found: list[tuple] = []

    def run(*args: Tensor, **named: Any) -> Tensor:
        if named:  # `values`, through which a residual looks into the run
            return f(*args, **named)
        for inputs, output in found:
            if len(inputs) == len(args) and all(map(torch.equal, inputs, args)):
                return output
        found.append((args, f(*args)))
        return found[-1][1]

    return replace(sublayer, f=run) if is_dataclass(sublayer) and not isinstance(sublayer, type) \
        else run


def shortcut_matrix(operator: NamedTuple) -> Tensor:
    """The matrix M by which the shortcut multiplies a token's state, with its coefficients held
    fixed.

    Arguments:
        operator: an entry of `operators_by_layer`. M is its property `shortcut`, or else its field
            `mix`, or I − β k kᵀ of its fields `direction` and `beta`.
    Returns: (B, T, m, m); B and T are 1 where one M serves all tokens. The shortcut multiplies a
        token's flattened state by M ⊗ I. m is n for n streams, where all features meet the same
        matrix; D for the delta operators, where all value channels do, and for MGT's diagonal; 1
        for an identity that a residual declares; and the size of the state for a `StepAlone`.
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
    raise ValueError("operator must have a shortcut, or the field mix, or direction and beta, "
                     f"got {', '.join(fields) or 'none'}")
