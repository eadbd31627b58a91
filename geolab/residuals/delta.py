"""x ← x + β (v − kᵀx) k: the delta residual with one value channel (DDL eq. 3.1).

The shortcut changes along k only: each sublayer moves each token's state along one line. In the
k-Map the sublayer gives the direction k, and a linear map of the state gives the value v. In the
v-Map the sublayer gives the value, and a small branch gives the direction (DDL section 4.1).

`DeltaRule` holds the generators of k, v and β for any number of value channels; `DeltaMatrix`
shares them.

Legend: B batch, T positions, D model width, d_v value channels.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_number, require_option
from geolab.operators import (
    delta_layer,
    delta_update,
    outside_autocast,
    unit_direction,
    widened,
)
from geolab.operators.delta import makes_rates
from geolab.residuals.base import Normed, Residual, Sublayer
from geolab.residuals.weights import Linear, normal, own

VALUES = {
    "sigmoid": lambda logit: torch.sigmoid(logit),           # the paper, section 4.1
    "sigmoid4": lambda logit: 4 * torch.sigmoid(logit),      # the published code
    "linear": lambda logit: logit,                           # the paper, section 4.2
    "normed-linear": lambda logit: logit,                    # a later version: of the normed input
    "constant": lambda logit: torch.full_like(logit, 2.0),   # an option of the published code
}
HEIGHTS = {"sigmoid": 1.0, "sigmoid4": 4.0}  # of those that `delta_layer` makes


class DeltaCoefficients(NamedTuple):
    """The coefficients that a delta residual computes from a state."""

    direction: Tensor   # k: (B, T, D), unit vectors
    value: Tensor       # v: (B, T), or (B, T, d_v)
    beta: Tensor        # β: (B, T)


class WriteOnly(DeltaCoefficients):
    """The same coefficients, without erasure."""

    @property
    def shortcut(self) -> Tensor:
        """The identity, as one number for all features and tokens: (1, 1, 1, 1)."""
        return self.beta.new_ones(1, 1, 1, 1)


@dataclass(frozen=True)
class Rule:
    """The options by which k, v and β are made and change the state.

    Arguments:
        map: "k" (the sublayer gives the direction) or "v" (it gives the value).
        gate: how β = 2σ(·) reads the normalised input: "linear", or "mlp" (one tanh layer of 128
            features, an option of the published code).
        gate_logits: the precision of β's logit under autocast: "half", which rounds it as the
            published code does, or "single", as the paper says (appendix B.2) and its code's fused
            kernels do. Under autocast ours run for "single" alone. β itself is float32 at least.
        beta_init: β at the start, in (0, 2). The published code's configuration takes 1, a
            projection.
        beta_fixed: a number in [0, 2] freezes β, which then has no parameters; None learns it.
        value: how v is read, one of VALUES. The k-Map reads the input; the v-Map reads the
            sublayer's output, by "sigmoid", "sigmoid4" or "linear".
        eps: the guard of the direction's normalisation.
        context: the norm through which β reads: "own", an RMS norm without a weight, or "sublayer",
            the sublayer's norm with its weight (published). Where that is an RMS norm with the same
            guard, both give the same functions, because β's linear map absorbs the weight. But
            "sublayer" trains the weight through β too.
        norm_eps: the guard of β's own norm. None is the dtype's own. With context="sublayer" it
            must be left out, since that norm has its own guard.
        erase: False leaves out the erasure. This is a control that the papers don't have.
    Raises: ValueError for an unknown option, or a number outside its range.
    """

    map: str = "k"
    gate: str = "linear"
    gate_logits: str = "half"
    beta_init: float = 1.0
    beta_fixed: float | None = None
    value: str = "sigmoid4"
    eps: float = 1e-5
    context: str = "own"
    norm_eps: float | None = None
    erase: bool = True

    def __post_init__(self):
        require_option("map", self.map, ("k", "v"))
        require_option("gate", self.gate, ("linear", "mlp"))
        require_option("value", self.value, VALUES)
        require_option("erase", self.erase, (True, False))
        require_option("context", self.context, ("own", "sublayer"))
        require_option("gate_logits", self.gate_logits, ("half", "single"))
        if self.map == "v" and self.value in ("constant", "normed-linear"):
            raise ValueError(f"value={self.value!r} can't be read from the sublayer's output, "
                             "as map='v' does: use 'linear', 'sigmoid' or 'sigmoid4'")
        require_number("beta_init", self.beta_init, 0, 2, strict=True)
        require_number("eps", self.eps, 0)
        if self.beta_fixed is not None:
            require_number("beta_fixed", self.beta_fixed, 0, 2)
        if self.norm_eps is not None:
            require_number("norm_eps", self.norm_eps, 0)


class DeltaRule(Residual):
    """The delta update with generated k, v and β, for any number of value channels.

    Arguments:
        width: D.
        channels: d_v, the numbers in v.
        gate_inputs, direction_inputs: how many features β's map and the v-Map's branch read.
        rule: the fields of `Rule`.
    Raises: ValueError, in a step with context="sublayer", for a sublayer that isn't `Normed` with
        a norm.
    """

    spectrum = "1, and 1 − β along k"
    values = Rule
    normalize = True  # whether the direction is normalised

    def __init__(self, width: int, index: int, count: int, *, channels: int, gate_inputs: int,
                 direction_inputs: int, **rule):
        super().__init__(width, index, count)
        self.channels, self.rule = channels, Rule(**rule)
        if self.rule.beta_fixed is None:
            self.beta_head = _beta_head(self.rule.gate, gate_inputs, width, self.rule.beta_init)
        if self.rule.value != "constant":
            self.value_head = _started(Linear(width, channels), width)
        if self.rule.map == "v":
            self.direction_head = direction_mlp(direction_inputs, width)

    @classmethod
    def idle(cls, options: Mapping[str, Any]) -> dict[str, str]:
        found = {}
        if options["context"] != "own":
            found["norm_eps"] = f"context={options['context']!r}"
        if options["beta_fixed"] is not None:
            fixed = f"beta_fixed={options['beta_fixed']!r}"
            found |= dict.fromkeys(("beta_init", "gate", "gate_logits"), fixed)
            if not cls._reads_norm(options):
                found |= dict.fromkeys(("context", "norm_eps"), fixed)
        return found

    @staticmethod
    def _reads_norm(options: Mapping[str, Any]) -> bool:
        """Return whether the norm of `context` is read for more than β."""
        if options["map"] == "v":
            return options.get("direction_reads", "input") == "input"
        return options["value"] == "normed-linear"

    @abstractmethod
    def read(self, state: Tensor) -> Tensor:
        """The part of a state that the sublayer and the generators read: (B, T, D)."""

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        x = self.read(state)
        if self._fused(state):
            direction, source, context = self._sources(x, sublayer, state)
            gate = self._gate_reads(context, state)
            (of_value, value_bias), (of_rate, rate_bias) = self.value_head(), self.beta_head()
            return delta_layer(state, direction, source, gate, of_value, value_bias, of_rate,
                               rate_bias, self.rule.eps, HEIGHTS[self.rule.value])
        direction, value, beta = self.generate(x, sublayer, state)
        eps = self.rule.eps if self.normalize else None
        return delta_update(state, direction, value, beta, self.rule.erase, eps)

    def _fused(self, state: Tensor) -> bool:
        """Return whether kernels take both linear maps and the update.

        They do unless somebody looks at the maps, or has put an adapter or a quantised weight in
        their place.
        """
        rule = self.rule
        if rule.value not in HEIGHTS or rule.beta_fixed is not None or not rule.erase:
            return False
        heads = (self.value_head, self.beta_head)
        if not own(*heads) or any(head.in_features != self.width for head in heads):
            return False
        return makes_rates(state, self.value_head.weight) and not (
            rule.gate_logits == "half" and torch.is_autocast_enabled(state.device.type))

    def coefficients(self, x: Tensor, sublayer: Sublayer,
                     state: Tensor | None = None) -> DeltaCoefficients:
        """k, v and β at x (B, T, D), the result of `read`.

        The state itself is needed only where a generator reads it (see `DeltaMatrix`).
        """
        direction, value, beta = self.generate(x, sublayer, state)
        if self.normalize:
            direction = unit_direction(direction, self.rule.eps)
        return (DeltaCoefficients if self.rule.erase else WriteOnly)(direction, value, beta)

    def observe(self, state: Tensor, sublayer: Sublayer) -> DeltaCoefficients:
        return self.coefficients(self.read(state), sublayer, state)

    def generate(self, x: Tensor, sublayer: Sublayer,
                 state: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """The same as `coefficients`, but with k before its normalisation."""
        direction, source, context = self._sources(x, sublayer, state)
        return direction, self._value(source), self._beta(self._gate_reads(context, state))

    def _sources(self, x: Tensor, sublayer: Sublayer,
                 state: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """k before its normalisation, what v reads, and the normalised input."""
        context, h = self._through(x, sublayer)
        if self.rule.map == "k":
            return h, context if self.rule.value == "normed-linear" else x, context
        return self._direction(x, context, state), h, context

    def _through(self, x: Tensor, sublayer: Sublayer) -> tuple[Tensor, Tensor]:
        """The normalised input, and F of it."""
        if self.rule.context == "own":
            # without a weight: the linear maps that follow would absorb it
            return F.rms_norm(x, (self.width,), eps=self.rule.norm_eps), sublayer(x)
        if not isinstance(sublayer, Normed) or sublayer.norm is None:
            raise ValueError("context='sublayer' needs a sublayer with a norm, Normed(F, norm), "
                             f"got {sublayer!r}")
        context = sublayer.norm(x)
        return context, sublayer.f(context)

    def _direction(self, x: Tensor, context: Tensor, state: Tensor | None) -> Tensor:
        """φ_k of the v-Map (section 4.1)."""
        return self.direction_head(context)

    def _gate_reads(self, context: Tensor, state: Tensor | None) -> Tensor:
        """𝒢 of eq. 2.7."""
        return context

    def _value(self, source: Tensor) -> Tensor:
        if self.rule.value == "constant":
            logit = source[..., :1].expand(*source.shape[:-1], self.channels)
        else:
            logit = self.value_head(source)
        value = VALUES[self.rule.value](logit)
        return value.squeeze(-1) if self.channels == 1 else value

    def _beta(self, x: Tensor) -> Tensor:
        if self.rule.beta_fixed is not None:
            return torch.full_like(x[..., 0], self.rule.beta_fixed)
        if self.rule.gate_logits == "half":
            logit = self.beta_head(x)
        else:
            with outside_autocast(x):
                logit = self.beta_head(widened(x))
        return 2 * torch.sigmoid(widened(logit).squeeze(-1))


class Delta(DeltaRule):
    """Delta residual, d_v = 1. With erase=False it is x + β v k.

    Arguments:
        rule: the fields of `Rule`.
    """

    def __init__(self, width: int, index: int = 0, count: int = 1, **rule):
        super().__init__(width, index, count, channels=1, gate_inputs=width,
                         direction_inputs=width, **rule)

    def read(self, state: Tensor) -> Tensor:
        return state


def direction_mlp(inputs: int, width: int) -> nn.Sequential:
    """φ_k, the v-Map's small branch: (..., inputs) -> (..., D), through D/4 features."""
    down, up = Linear(inputs, width // 4, bias=False), Linear(width // 4, width, bias=False)
    return nn.Sequential(_started(down, width), nn.GELU(), _started(up, width))


def _beta_head(gate: str, inputs: int, width: int, beta_init: float) -> nn.Module:
    last = Linear(inputs if gate == "linear" else 128, 1)
    first = [] if gate == "linear" else [
        _started(Linear(inputs, 128, bias=False), width), nn.Tanh()]
    _started(last, width, bias=math.log(beta_init / (2 - beta_init)))
    return nn.Sequential(*first, last) if first else last


def _started(layer: Linear, width: int, bias: float = 0.0) -> Linear:
    """N(0, (0.5/√D)²), the published code's rule for every matrix; biases start at a number."""
    return layer.start(normal, std=0.5 / math.sqrt(width), bias=bias)
