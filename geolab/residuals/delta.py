"""x ← x + β (v − kᵀx) k, the delta residual with one value channel (DDL eq. 3.1).

Nothing is added to the shortcut but along k: each sublayer moves the state on one line a token.
In the k-Map the sublayer gives the direction k, and a linear map of the state the value v;
in the v-Map the sublayer gives the value, and a small branch the direction (DDL section 4.1).

`DeltaRule` holds the generators of k, v and β, for any number of value channels; `DeltaMatrix` shares them.
Legend: B batch, T positions, D model width, d_v value channels.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_number, require_option
from geolab.operators import delta_update, unit_direction
from geolab.residuals.base import Residual, Sublayer

VALUES = {
    "sigmoid": lambda logit: torch.sigmoid(logit),           # the paper, section 4.1
    "sigmoid4": lambda logit: 4 * torch.sigmoid(logit),      # the published code
    "linear": lambda logit: logit,                           # the paper, section 4.2
    "normed-linear": lambda logit: logit,                    # the paper's later version: reads the normalised input
    "constant": lambda logit: torch.full_like(logit, 2.0),   # an option of the published code
}


class Coefficients(NamedTuple):
    """What a delta residual computes from a state."""

    direction: Tensor   # k: (B, T, D), unit vectors
    value: Tensor       # v: (B, T), or (B, T, d_v)
    beta: Tensor        # β: (B, T)


class WriteOnly(Coefficients):
    """The same where nothing is erased."""

    @property
    def shortcut(self) -> Tensor:
        """The identity, as one number for all features and tokens: (1, 1, 1, 1)."""
        return self.beta.new_ones(1, 1, 1, 1)


class DeltaRule(Residual):
    """The generators of k, v and β from a vector a token.

    Arguments:
        width: D.
        channels: d_v, the numbers in v.
        map: "k" (the sublayer gives the direction) or "v" (it gives the value).
        gate: how β = 2σ(·) reads the normalised input: "linear", or "mlp" (one tanh layer of 128, as the code offers).
        beta_init: β at initialisation, in (0, 2). The published code's configuration takes 1, a projection.
        beta_fixed: a number in [0, 2] freezes β, which then has no parameters; None learns it.
        value: how v is read, one of VALUES. The k-Map reads the input; the v-Map reads the sublayer's output, by "sigmoid",
            "sigmoid4" or "linear".
        eps: the guard of the direction's normalisation.
        norm_eps: of the norm that β reads through. None is the dtype's own; the published code takes 1e-5.
        erase: False leaves out the erasure. A control; the papers have none.
    Raises: ValueError for an unknown option, or a number outside its range.
    """

    spectrum = "1, and 1 − β along k"

    def __init__(self, width: int, index: int, count: int, *, channels: int, map: str = "k", gate: str = "linear",
                 beta_init: float = 1.0, beta_fixed: float | None = None, value: str = "sigmoid4", eps: float = 1e-5,
                 norm_eps: float | None = None, erase: bool = True):
        super().__init__(width, index, count)
        require_option("map", map, ("k", "v"))
        require_option("gate", gate, ("linear", "mlp"))
        require_option("value", value, VALUES)
        require_option("erase", erase, (True, False))
        if map == "v" and value == "constant":
            raise ValueError("value='constant' leaves the v-Map nothing to read: its value is the sublayer's output")
        if map == "v" and value == "normed-linear":
            raise ValueError("value='normed-linear' reads the normalised input, the v-Map the sublayer's output: use 'linear'")
        require_number("beta_init", beta_init, 0, 2, strict=True)
        require_number("eps", eps, 0)
        if beta_fixed is not None:
            require_number("beta_fixed", beta_fixed, 0, 2)
        if norm_eps is not None:
            require_number("norm_eps", norm_eps, 0)
        self.channels, self.map, self.value, self.beta_fixed = channels, map, value, beta_fixed
        self.eps, self.norm_eps, self.erase = eps, norm_eps, erase
        if beta_fixed is None:
            self.beta_head = _gate_head(gate, width, beta_init)
        if value != "constant":
            self.value_head = nn.Linear(width, channels)
            _init_linear(self.value_head, width)
        if map == "v":
            self.direction_head = nn.Sequential(nn.Linear(width, width // 4, bias=False), nn.GELU(),
                                                nn.Linear(width // 4, width, bias=False))
            for layer in self.direction_head[::2]:
                _init_linear(layer, width)

    def extra_repr(self) -> str:
        return f"map={self.map!r}, value={self.value!r}, beta_fixed={self.beta_fixed}, eps={self.eps}"

    def generate(self, x: Tensor, sublayer: Sublayer) -> tuple[Tensor, Tensor, Tensor]:
        """k before its normalisation (B, T, D), v (B, T, d_v) and β (B, T), from x (B, T, D)."""
        # rms-norm without a weight: the sublayer's norm weight is absorbed by the linear maps that follow
        context = F.rms_norm(x, (self.width,), eps=self.norm_eps)
        h = sublayer(x)
        if self.map == "k":
            direction, source = h, context if self.value == "normed-linear" else x
        else:
            direction, source = self.direction_head(context), h
        return direction, self._value(source), self._beta(context)

    def _value(self, source: Tensor) -> Tensor:
        logit = source[..., :1].expand(*source.shape[:-1], self.channels) if self.value == "constant" else self.value_head(source)
        return VALUES[self.value](logit)

    def _beta(self, context: Tensor) -> Tensor:
        if self.beta_fixed is not None:
            return torch.full_like(context[..., 0], self.beta_fixed)
        return 2 * torch.sigmoid(self.beta_head(context).squeeze(-1))


class Delta(DeltaRule):
    """Delta residual, d_v = 1. With erase=False it is x + β v k.

    Arguments:
        rule: those of `DeltaRule`, but channels.
    Raises: ValueError for channels, which are `DeltaMatrix`'s.
    """

    def __init__(self, width: int, index: int = 0, count: int = 1, **rule):
        if "channels" in rule:
            raise ValueError(f"the residual 'delta' has one value channel, got channels={rule['channels']}; "
                             "'delta-matrix' takes channels")
        super().__init__(width, index, count, channels=1, **rule)

    def extra_repr(self) -> str:
        norm_eps = "" if self.norm_eps is None else f", norm_eps={self.norm_eps}"  # checkpoints know a model by this text
        return f"erase={self.erase}, {super().extra_repr()}{norm_eps}"

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        direction, value, beta = self.generate(state, sublayer)
        return delta_update(state, direction, value.squeeze(-1), beta, erase=self.erase, eps=self.eps)

    def coefficients(self, state: Tensor, sublayer: Sublayer) -> Coefficients:
        """k (B, T, D), v (B, T) and β (B, T) at a state (B, T, D)."""
        direction, value, beta = self.generate(state, sublayer)
        found = Coefficients if self.erase else WriteOnly
        return found(unit_direction(direction, self.eps), value.squeeze(-1), beta)

    def observe(self, state: Tensor, sublayer: Sublayer) -> Coefficients:
        return self.coefficients(state, sublayer)


def _gate_head(gate: str, width: int, beta_init: float) -> nn.Module:
    last = nn.Linear(width if gate == "linear" else 128, 1)
    head = last if gate == "linear" else nn.Sequential(nn.Linear(width, 128, bias=False), nn.Tanh(), last)
    for layer in [last] if gate == "linear" else [head[0], last]:
        _init_linear(layer, width)
    with torch.no_grad():
        last.bias.fill_(math.log(beta_init / (2 - beta_init)))
    return head


def _init_linear(layer: nn.Linear, width: int) -> None:
    """N(0, (0.5/√D)²), the published code's rule for every matrix; biases start at zero."""
    nn.init.normal_(layer.weight, std=0.5 / math.sqrt(width))
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
