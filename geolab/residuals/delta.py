"""x ← x + β (v − kᵀx) k: the delta residual with one value channel (DDL eq. 3.1).

The shortcut changes along k only: each sublayer moves each token's state on one line. In the k-Map
the sublayer gives the direction k, and a linear map of the state the value v; in the v-Map the
sublayer gives the value, and a small branch the direction (DDL section 4.1).

`DeltaRule` holds the generators of k, v and β for any number of value channels; `DeltaMatrix`
shares them.

Legend: B batch, T positions, D model width, d_v value channels.
"""

import math
from abc import abstractmethod
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
    "normed-linear": lambda logit: logit,                    # a later version: of the normed input
    "constant": lambda logit: torch.full_like(logit, 2.0),   # an option of the published code
}


class DeltaCoefficients(NamedTuple):
    """What a delta residual computes from a state."""

    direction: Tensor   # k: (B, T, D), unit vectors
    value: Tensor       # v: (B, T), or (B, T, d_v)
    beta: Tensor        # β: (B, T)


class WriteOnly(DeltaCoefficients):
    """The same where nothing is erased."""

    @property
    def shortcut(self) -> Tensor:
        """The identity, as one number for all features and tokens: (1, 1, 1, 1)."""
        return self.beta.new_ones(1, 1, 1, 1)


class DeltaRule(Residual):
    """The delta update with generated k, v and β, for any number of value channels.

    Arguments:
        width: D.
        channels: d_v, the numbers in v.
        map: "k" (the sublayer gives the direction) or "v" (it gives the value).
        gate: how β = 2σ(·) reads the normalised input: "linear", or "mlp" (one tanh layer of 128
            features, an option of the published code).
        beta_init: β at the start, in (0, 2). The published code's configuration takes 1, a
            projection.
        beta_fixed: a number in [0, 2] freezes β, which then has no parameters; None learns it.
        value: how v is read, one of VALUES. The k-Map reads the input; the v-Map reads the
            sublayer's output, by "sigmoid", "sigmoid4" or "linear".
        eps: the guard of the direction's normalisation.
        norm_eps: the guard of the norm through which β reads. None is the dtype's own; the
            published code takes 1e-5.
        erase: False leaves out the erasure. This is a control that the papers don't have.
    Raises: ValueError for an unknown option, or a number outside its range.
    """

    spectrum = "1, and 1 − β along k"

    def __init__(self, width: int, index: int, count: int, *, channels: int, map: str = "k",
                 gate: str = "linear", beta_init: float = 1.0, beta_fixed: float | None = None,
                 value: str = "sigmoid4", eps: float = 1e-5, norm_eps: float | None = None,
                 erase: bool = True):
        super().__init__(width, index, count)
        require_option("map", map, ("k", "v"))
        require_option("gate", gate, ("linear", "mlp"))
        require_option("value", value, VALUES)
        require_option("erase", erase, (True, False))
        if map == "v" and value in ("constant", "normed-linear"):
            raise ValueError(f"value={value!r} can't be read from the sublayer's output, "
                             "as map='v' does: use 'linear', 'sigmoid' or 'sigmoid4'")
        require_number("beta_init", beta_init, 0, 2, strict=True)
        require_number("eps", eps, 0)
        if beta_fixed is not None:
            require_number("beta_fixed", beta_fixed, 0, 2)
        if norm_eps is not None:
            require_number("norm_eps", norm_eps, 0)
        self.channels, self.map, self.value, self.beta_fixed = channels, map, value, beta_fixed
        self.eps, self.norm_eps, self.erase, self.normalize = eps, norm_eps, erase, True
        if beta_fixed is None:
            self.beta_head = _beta_head(gate, width, beta_init)
        if value != "constant":
            self.value_head = nn.Linear(width, channels)
            _init_linear(self.value_head, width)
        if map == "v":
            self.direction_head = nn.Sequential(nn.Linear(width, width // 4, bias=False), nn.GELU(),
                                                nn.Linear(width // 4, width, bias=False))
            for layer in self.direction_head[::2]:
                _init_linear(layer, width)

    @abstractmethod
    def read(self, state: Tensor) -> Tensor:
        """What the sublayer and the generators read of a state: (B, T, D)."""

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        direction, value, beta = self.generate(self.read(state), sublayer)
        eps = self.eps if self.normalize else None
        return delta_update(state, direction, value, beta, self.erase, eps)

    def coefficients(self, x: Tensor, sublayer: Sublayer) -> DeltaCoefficients:
        """k, v and β at x (B, T, D), which is what `read` gives."""
        direction, value, beta = self.generate(x, sublayer)
        if self.normalize:
            direction = unit_direction(direction, self.eps)
        return (DeltaCoefficients if self.erase else WriteOnly)(direction, value, beta)

    def observe(self, state: Tensor, sublayer: Sublayer) -> DeltaCoefficients:
        return self.coefficients(self.read(state), sublayer)

    def generate(self, x: Tensor, sublayer: Sublayer) -> tuple[Tensor, Tensor, Tensor]:
        """As `coefficients`, but k before its normalisation."""
        # rms-norm without a weight: the linear maps that follow would absorb it
        context = F.rms_norm(x, (self.width,), eps=self.norm_eps)
        h = sublayer(x)
        if self.map == "k":
            direction, source = h, context if self.value == "normed-linear" else x
        else:
            direction, source = self.direction_head(context if self.channels == 1 else x), h
        return direction, self._value(source), self._beta(context)

    def _value(self, source: Tensor) -> Tensor:
        if self.value == "constant":
            logit = source[..., :1].expand(*source.shape[:-1], self.channels)
        else:
            logit = self.value_head(source)
        value = VALUES[self.value](logit)
        return value.squeeze(-1) if self.channels == 1 else value

    def _beta(self, context: Tensor) -> Tensor:
        if self.beta_fixed is not None:
            return torch.full_like(context[..., 0], self.beta_fixed)
        return 2 * torch.sigmoid(self.beta_head(context).squeeze(-1))


class Delta(DeltaRule):
    """Delta residual, d_v = 1. With erase=False it is x + β v k.

    Arguments:
        rule: the options of `DeltaRule`, except channels.
    """

    def __init__(self, width: int, index: int = 0, count: int = 1, **rule):
        super().__init__(width, index, count, channels=1, **rule)

    def read(self, state: Tensor) -> Tensor:
        return state


def _beta_head(gate: str, width: int, beta_init: float) -> nn.Module:
    last = nn.Linear(width if gate == "linear" else 128, 1)
    first = [] if gate == "linear" else [nn.Linear(width, 128, bias=False), nn.Tanh()]
    for layer in [*first[:1], last]:
        _init_linear(layer, width)
    with torch.no_grad():
        last.bias.fill_(math.log(beta_init / (2 - beta_init)))
    return nn.Sequential(*first, last) if first else last


def _init_linear(layer: nn.Linear, width: int) -> None:
    """N(0, (0.5/√D)²), the published code's rule for every matrix; biases start at zero."""
    nn.init.normal_(layer.weight, std=0.5 / math.sqrt(width))
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
