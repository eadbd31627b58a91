"""The parts that E-MHC-Geo's forms share: a generator's numbers and its start, the gate and its
penalty.

Legend: B batch, T positions, n streams; u, v, β, k, γ are the generator's numbers for a token.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_number, require_option
from geolab.operators.delta import unit_direction
from geolab.operators.gate import gated_matrix, midpoint_penalty
from geolab.penalties import add_penalty
from geolab.residuals.pooling import Generator


def plane_direction_gate(numbers: Tensor, streams: int) -> tuple[Tensor, ...]:
    """Split a generator's numbers into u, v, β, k and γ: 3n + 2 numbers, or more where k has more
    than n.
    """
    reflected = numbers.shape[-1] - 2 * streams - 2
    u, v, beta, k, gate = numbers.split([streams, streams, 1, reflected, 1], dim=-1)
    return (u, v, F.softplus(beta.squeeze(-1)), unit_direction(k, eps=1e-12),
            gate.squeeze(-1).sigmoid())


def gated(rotation: Tensor, direction: Tensor, gate: Tensor, how: str) -> Tensor:
    """γ Q + (1 − γ) H; for how="hard" Q where γ > ½ and H elsewhere, with the gradient of that."""
    soft = gated_matrix(rotation, direction, gate)
    if how == "soft":
        return soft
    with torch.no_grad():
        hard = gated_matrix(rotation, direction, (gate > 0.5).to(gate.dtype))
    return hard + (soft - soft.detach())


def penalise(gate: Tensor, weight: float) -> None:
    """Add weight · mean of 4γ(1 − γ) to the training loss, unless the weight is 0."""
    if weight:
        add_penalty(weight * midpoint_penalty(gate).mean())


def start_generator(generator: Generator, streams: int, start: str, beta_init: float,
                    gate_bias: float | None = None, reflected: int | None = None) -> None:
    """Let the last layer's biases start as u, v, β and, with a gate, k and γ.

    The gate's weights become zero, so γ = σ(gate_bias). If γ has a head of its own, k comes last. k
    has `reflected` numbers, by default n.
    """
    require_option("start", start, ("plane", "published"))
    require_number("beta_init", beta_init, 0, strict=True)
    generator[-1].start(_start_last, streams=streams, start=start, beta_init=beta_init,
                        gate_bias=gate_bias, reflected=reflected or streams)


def idle_start(options: Mapping[str, Any], *names: str) -> dict[str, str]:
    """The options by these names, where start="published" leaves them without effect."""
    return dict.fromkeys(names, "start='published'") if options.get("start") == "published" else {}


@torch.no_grad()
def _start_last(layer: nn.Module, streams: int, start: str, beta_init: float,
                gate_bias: float | None, reflected: int) -> None:
    bias = layer.bias
    if start == "plane":
        plane = torch.empty(2, streams, dtype=torch.float32, device=bias.device)
        bias[:2 * streams] = nn.init.orthogonal_(plane).flatten()
        bias[2 * streams] = math.log(math.expm1(beta_init))
        if gate_bias is not None:
            bias[2 * streams + 1:2 * streams + 1 + reflected] = unit_direction(
                torch.randn(reflected, dtype=torch.float32, device=bias.device))
    if len(bias) == 2 * streams + 2 + reflected:
        layer.weight[-1], bias[-1] = 0.0, gate_bias
