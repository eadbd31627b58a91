"""The E-MHC-Geo benchmark's own forms of other papers' residuals, which its tables report.

They aren't the originals.

`BenchmarkDelta`: z = x − β (kᵀx) k, then x ← z + F(norm z). The delta operator comes before the
sublayer; as published, one operator serves the whole sequence. F is added, and no value is written
in place of the part that β erases.

`BenchmarkMHC`: x ← H x + b ⊙ F(norm tile(aᵀx)) on four slices of D/4 features. mHC widens the
stream, and this form cuts it: F reads the same D/4 numbers four times over, and slice i gets the
i-th quarter of F's output, times bᵢ.

`BenchmarkJPmHC`: JPmHC with generators that don't start at zero.

Legend: B batch, T positions, D model width, n = 4 slices.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from geolab.operators import delta_shortcut, outside_autocast, stream_mix, unit_direction
from geolab.residuals.base import Residual, Sublayer
from geolab.residuals.constrained import ConstrainedMaps, MapOptions
from geolab.residuals.jpmhc import JPmHC
from geolab.residuals.pooling import Hidden
from geolab.residuals.streams import StreamCoefficients
from geolab.residuals.weights import normal, small_linear

SLICES = 4
EPS = 1e-12  # of the direction's normalisation


class Erasure(NamedTuple):
    """The coefficients that `BenchmarkDelta` computes from a state; T is 1 for pool="sequence"."""

    direction: Tensor   # k: (B, T, D), unit vectors
    beta: Tensor        # β: (B, T), in (0, 2)


class BenchmarkDelta(Residual):
    """Erase along a generated direction, then add the sublayer.

    Arguments:
        width: D, at least 4: k and β have D/4 hidden features each.
        pool: what position t generates k and β from: "causal" (the mean up to t), "token" (itself),
            or "sequence" (the mean of all positions, published; it reads the future).
    Raises: ValueError for a smaller width or another pool.
    """

    spectrum = "1, and 1 − β along k"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, pool: str = "causal"):
        super().__init__(width, index, count)
        if width < 4:
            raise ValueError(f"width must be at least 4, got {width}")
        self.hidden = Hidden(width, 2 * (width // 4), pool)
        self.direction_head = small_linear(width // 4, width)
        self.beta_head = small_linear(width // 4, 1)
        self.leaks = pool == "sequence"

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        direction, beta = self.generate(state)
        if self.leaks:
            z = erase_everywhere(state, unit_direction(direction, EPS), beta)
        else:
            z = delta_shortcut(state, direction, beta, eps=EPS)
        return z + sublayer(z)

    def generate(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """k before its normalisation and β, at a state (B, T, D)."""
        for_direction, for_beta = self.hidden(state).chunk(2, dim=-1)
        beta = 2 * torch.sigmoid(self.beta_head(for_beta).squeeze(-1))
        return self.direction_head(for_direction), beta

    def coefficients(self, state: Tensor) -> Erasure:
        """k and β at a state (B, T, D)."""
        direction, beta = self.generate(state)
        return Erasure(unit_direction(direction, EPS), beta)


def erase_everywhere(x: Tensor, direction: Tensor, beta: Tensor) -> Tensor:
    """x − β (kᵀx) k, with one k and β for all positions: two matrix products per sequence.

    At table 5's size a training step takes 1.5 % less than with `delta_shortcut`.

    Arguments:
        x: (B, T, D).
        direction: k, (B, 1, D), unit vectors.
        beta: β, (B, 1).
    Returns: (B, T, D).
    """
    with outside_autocast(x):
        direction, beta = direction.to(x.dtype), beta.to(x.dtype)
        return torch.baddbmm(x, x @ direction.mT, -beta.unsqueeze(-1) * direction)


class BenchmarkMHC(Residual):
    """mHC's maps on four slices of a single stream.

    As published, H starts at 0.71 on its diagonal and 0.10 off it, not near the identity: each
    sublayer shrinks the differences between the slices by the factor 0.61. aᵀx starts as half the
    sum of the slices.

    Arguments:
        width: D, divisible by 4.
        diagonal: H's logits start near this number on the diagonal and near 0 off it. Published 2;
            at 8, H is near the identity.
    Raises: ValueError for a width that 4 doesn't divide.
    """

    spectrum = "1, the others inside the unit disc"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, diagonal: float = 2.0):
        super().__init__(width, index, count)
        if width % SLICES:
            raise ValueError(f"width must be divisible by {SLICES}, got {width}")
        options = MapOptions(order="row-column", norm_eps=1e-6, diagonal=diagonal)
        self.maps = ConstrainedMaps(width, (0.5,) * SLICES, options, std=0.02, norm_weight=True)

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        read, write, mix = self.coefficients(state)
        slices = state.unflatten(-1, (SLICES, -1))
        # one product for both reads the state once, and saves a read in the backward pass
        rows = torch.cat([read.unsqueeze(-2), mix], dim=-2)
        heard, mixed = stream_mix(slices, rows).split([1, SLICES], dim=-2)
        update = sublayer(heard.squeeze(-2).repeat(1, 1, SLICES))
        write = write.to(mixed.dtype).unsqueeze(-1)
        return torch.addcmul(mixed, write, update.view_as(slices)).flatten(-2)

    def coefficients(self, state: Tensor) -> StreamCoefficients:
        """a (B, T, 4), b (B, T, 4) and H (B, T, 4, 4) at a state (B, T, D)."""
        return self.maps.at(state)


class BenchmarkJPmHC(JPmHC):
    """JPmHC whose generators start as N(0, 0.02²), so that step 0 isn't the plain network's.

    The benchmark widens its whole trunk to four streams of the sublayer's width: input map,
    positions, last norm and output map have 4D features. Its options are ends="split" and, since it
    has no s, write_scale=False. By default they have D features here, and the learned `ends` stand
    between them and the streams. Arguments as for `JPmHC`; width is the sublayer's.
    """

    def __init__(self, width: int, index: int = 0, count: int = 1, **options):
        super().__init__(width, index, count, **options)
        self._start_generator(normal, std=0.02)
