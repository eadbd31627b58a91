"""The vector models of the negation diagnostic (E-MHC-Geo, section 9.5), which should give −x.

Each has one residual operator. There is no sequence and no Transformer. Two-layer MLPs generate the
operator's coefficients, and the operator acts on x itself, in R^d, or on four slices of it.

Legend: B batch, d features, n = 4 slices.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_option
from geolab.operators import blend, delta_shortcut, householder_matrix, midpoint_penalty, sinkhorn
from geolab.operators.cayley import cayley_iterated, cayley_rank2, skew
from geolab.operators.delta import unit_direction
from geolab.operators.streams import stream_mix
from geolab.penalties import add_penalty

SLICES = 4


def mlp(inputs: int, outputs: int, hidden: int = 128) -> nn.Sequential:
    """Linear, GELU, Linear, with PyTorch's own initialisation, as in the published diagnostic."""
    return nn.Sequential(nn.Linear(inputs, hidden), nn.GELU(), nn.Linear(hidden, outputs))


class AdditiveReflector(nn.Module):
    """x + F(x): (B, d) -> (B, d)."""

    def __init__(self, dim: int):
        super().__init__()
        self.branch = mlp(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.branch(x)


class DeltaReflector(nn.Module):
    """x − β(x) (k(x)ᵀx) k(x), with β in (0, 2): (B, d) -> (B, d)."""

    def __init__(self, dim: int):
        super().__init__()
        self.direction = mlp(dim, dim)
        self.beta = mlp(dim, 1)

    def coefficients(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """k (B, d), of unit length, and β (B,)."""
        beta = 2 * torch.sigmoid(self.beta(x).squeeze(-1))
        return unit_direction(self.direction(x), eps=1e-8), beta

    def forward(self, x: Tensor) -> Tensor:
        return delta_shortcut(x, *self.coefficients(x))


class HybridReflector(nn.Module):
    """(γ Q + (1 − γ) H) x in R^d: (B, d) -> (B, d).

    Q turns the plane of orthonormal u and v, which depend on x, by 2 atan(β/2). H reflects along k.
    A plane that contains x, with an angle near π, negates x as well as H does. The gate starts on
    the side of H, as published.

    Arguments:
        gate_bias: γ = σ(gate_bias) at the start.
        penalty: weight of the mean of 4γ(1 − γ) in the loss.
    """

    def __init__(self, dim: int, gate_bias: float = -1.5, penalty: float = 0.5):
        super().__init__()
        self.u, self.v, self.beta = mlp(dim, dim), mlp(dim, dim), mlp(dim, 1)
        self.direction = mlp(dim, dim)
        self.gate, self.gate_bias, self.penalty = nn.Linear(dim, 1), gate_bias, penalty
        nn.init.zeros_(self.gate.weight)
        nn.init.constant_(self.gate.bias, gate_bias)

    def coefficients(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Q (B, d, d), k (B, d) and γ (B,)."""
        u, v = unit_direction(self.u(x)), unit_direction(self.v(x))
        v = unit_direction(v - (u * v).sum(-1, keepdim=True) * u)
        rotation = cayley_rank2(u, v, F.softplus(self.beta(x).squeeze(-1)))
        return rotation, unit_direction(self.direction(x)), self.gate(x).squeeze(-1).sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        rotation, direction, gate = self.coefficients(x)
        if self.penalty:
            add_penalty(self.penalty * midpoint_penalty(gate).mean())
        operator = blend(rotation, householder_matrix(direction), gate)
        return (operator @ x.unsqueeze(-1)).squeeze(-1)


class JPmHCReflector(nn.Module):
    """Y x in R^d, with Y the Cayley transform of a free skew matrix after two iterations.

    (B, d) -> (B, d).

    Arguments:
        start: of the iteration. "identity" is the published diagnostic's, and keeps every
            eigenvalue √3 away from −1; "shifted" (I + αW) is the paper's own iterate, which
            attains −1.
    """

    def __init__(self, dim: int, start: str = "identity"):
        super().__init__()
        require_option("start", start, ("identity", "shifted"))
        self.generator, self.start = mlp(dim, dim * dim), start

    def coefficients(self, x: Tensor) -> Tensor:
        """Y (B, d, d)."""
        w = skew(self.generator(x).unflatten(-1, (x.shape[-1], x.shape[-1])))
        return cayley_iterated(w, steps=2, alpha=0.1, start=self.start)

    def forward(self, x: Tensor) -> Tensor:
        return (self.coefficients(x) @ x.unsqueeze(-1)).squeeze(-1)


class MHCReflector(nn.Module):
    """H_res X + 2σ(·) ⊙ F(σ(·) ⊙ X) on four slices of x, which share F: (B, d) -> (B, d).

    H_res is doubly stochastic, so only F can bring a sign. This is the benchmark's form, not the
    mHC paper's: its streams are slices, and nothing is summed over them before F.

    Arguments:
        dim: d, divisible by 4.
        hidden: features inside F.
    """

    def __init__(self, dim: int, hidden: int = 350):
        super().__init__()
        if dim % SLICES:
            raise ValueError(f"dim must be divisible by {SLICES}, got {dim}")
        sizes = (SLICES, SLICES, SLICES**2)
        self.read, self.write, self.mix = (nn.Linear(dim, size, bias=False) for size in sizes)
        self.read_bias = nn.Parameter(torch.zeros(SLICES))
        self.write_bias = nn.Parameter(torch.zeros(SLICES))
        self.mix_bias = nn.Parameter(2 * torch.eye(SLICES))
        self.scales = nn.Parameter(torch.full((3,), 0.01))
        self.branch = mlp(dim // SLICES, dim // SLICES, hidden)

    def coefficients(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """H_res (B, 4, 4), and the factors of each slice before and after the branch, (B, 4) each.
        """
        read, write, mix = self.scales
        logits = mix * self.mix(x).unflatten(-1, (SLICES, SLICES)) + self.mix_bias
        return (sinkhorn(logits, iterations=10, order="row-column"),
                (read * self.read(x) + self.read_bias).sigmoid(),
                2 * (write * self.write(x) + self.write_bias).sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        mixing, read, write = self.coefficients(x)
        slices = x.unflatten(-1, (SLICES, -1))
        update = write.unsqueeze(-1) * self.branch(read.unsqueeze(-1) * slices)
        return (stream_mix(slices, mixing) + update).flatten(-2)


class StreamHybridReflector(nn.Module):
    """γ (Q ⊗ I) x + (1 − γ) H x: (B, d) -> (B, d), for d divisible by 4.

    Q turns the four slices of x, and H reflects all of x. One MLP of the layer-normed x generates
    everything.

    Arguments: as for `HybridReflector`.
    Raises: ValueError for a d that 4 doesn't divide.
    """

    def __init__(self, dim: int, gate_bias: float = -1.5, penalty: float = 0.5):
        super().__init__()
        if dim % SLICES:
            raise ValueError(f"dim must be divisible by {SLICES}, got {dim}")
        self.generator, self.penalty = mlp(dim, 2 * SLICES + 1 + dim + 1, hidden=48), penalty
        nn.init.zeros_(self.generator[-1].weight[-1])
        nn.init.constant_(self.generator[-1].bias[-1], gate_bias)

    def coefficients(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Q (B, 4, 4), k (B, d) and γ (B,)."""
        u, v, beta, direction, gate = self.generator(F.layer_norm(x, x.shape[-1:])).split(
            [SLICES, SLICES, 1, x.shape[-1], 1], dim=-1)
        rotation = cayley_rank2(u, v, F.softplus(beta.squeeze(-1)))
        return rotation, unit_direction(direction), gate.squeeze(-1).sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        rotation, direction, gate = self.coefficients(x)
        if self.penalty:
            add_penalty(self.penalty * midpoint_penalty(gate).mean())
        turned = stream_mix(x.unflatten(-1, (SLICES, -1)), rotation).flatten(-2)
        gate = gate.unsqueeze(-1)
        return gate * turned + (1 - gate) * delta_shortcut(x, direction, 2.0)
