"""The E-MHC-Geo benchmark's own forms of other papers' residuals. They carry its tables, and aren't the originals.

`BenchmarkDelta`: z = x − β (kᵀx) k, then x ← z + F(norm z). The delta operator comes before the sublayer, one for the whole
sequence as published, and F is added: nothing is written in the place of what β erases.

`BenchmarkMHC`: x ← H x + b ⊙ F(norm tile(aᵀx)) on four slices of D/4 features. The stream isn't widened as in mHC but cut:
F reads D/4 numbers, four times the same, and slice i gets the i-th quarter of F's output, times bᵢ.

`BenchmarkJPmHC`: JPmHC with generators that don't start at zero.

Legend: B batch, T positions, D model width, n = 4 slices.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from geolab.operators import delta_shortcut, in_state_dtype, stream_mix, unit_direction, widened
from geolab.residuals.base import Residual, Sublayer
from geolab.residuals.jpmhc import JPmHC
from geolab.residuals.mhc import ConstrainedMaps
from geolab.residuals.pooling import Hidden, small_linear
from geolab.residuals.streams import Coefficients

SLICES = 4
EPS = 1e-12  # of the direction's normalisation


class Erasure(NamedTuple):
    """What `BenchmarkDelta` computes from a state; T is 1 for pool="sequence"."""

    direction: Tensor   # k: (B, T, D), unit vectors
    beta: Tensor        # β: (B, T), in (0, 2)


class BenchmarkDelta(Residual):
    """Erase along a generated direction, then add the sublayer.

    Arguments:
        width: D, at least 4: k and β have D/4 hidden features each.
        pool: what position t generates k and β from: "causal" (mean so far), "token", or "sequence" (published; leaks).
    """

    spectrum = "1, and 1 − β along k"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, pool: str = "causal"):
        super().__init__(width, index, count)
        if width < 4:
            raise ValueError(f"width must be at least 4, got {width}")
        self.hidden = Hidden(width, 2 * (width // 4), pool)
        self.direction_head, self.beta_head = small_linear(width // 4, width), small_linear(width // 4, 1)
        self.leaks = pool == "sequence"

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        if self.leaks:
            z, heard = erase_by_mean(state, *self.parameters())
        else:
            z = heard = delta_shortcut(state, *self.generate(state), eps=EPS)
        return z + sublayer(heard)

    def generate(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """k before its normalisation and β, at a state (B, T, D)."""
        for_direction, for_beta = self.hidden(state).chunk(2, dim=-1)
        return self.direction_head(for_direction), 2 * torch.sigmoid(self.beta_head(for_beta).squeeze(-1))

    def coefficients(self, state: Tensor) -> Erasure:
        """k and β at a state (B, T, D)."""
        direction, beta = self.generate(state)
        return Erasure(unit_direction(direction, EPS), beta)


@in_state_dtype
def erase_by_mean(state: Tensor, *maps: Tensor) -> tuple[Tensor, Tensor]:
    """z = x − β (kᵀx) k at every position, k and β generated from the mean over all of them as in `BenchmarkDelta`.

    Arguments:
        state: x, (B, T, D).
        maps: weight and bias of the generator's three linear maps: (D/2, D) for what is hidden, then from its two halves
            (D, D/4) to k before its normalisation and (1, D/4) to β before its sigmoid.
    Returns: z, (B, T, D), twice in the same memory: for a sublayer and for the sum with its output. Their gradients come back apart,
        and what they add up to is a tensor of the operator's own, which takes the rest of its gradient in place.
    """
    return _ErasedByMean.apply(state, *maps)


class _ErasedByMean(Function):
    """Z = X + r sᵀ for a sequence in rows: r = X h and s = c σ h with c = −2 / (‖h‖² + ε²), h and σ = β/2 from the mean of X.

    Let G be the gradient by Z. Then a = G s is the one by r, and v = Gᵀ r the one by s, which leaves b = (v·s)(1 − σ) for the logit
    of σ and Xᵀa + cσ v + (v·s) c h for h. The sublayer keeps Z for itself, so Z is kept here and not X: as Xᵀa = Zᵀa − (v·s) s, the
    gradient by h is Zᵀa + c (σ v + b h). What comes through the mean is added to G in the product that adds a hᵀ.
    """

    @staticmethod
    def forward(ctx, x: Tensor, *maps: Tensor) -> tuple[Tensor, Tensor]:
        down, down_bias, head, head_bias, rate_head, rate_bias = map(widened, maps)
        mean = x.mean(dim=1, dtype=torch.promote_types(x.dtype, torch.float32))       # (B, D), as all but the state has no T
        logits = F.linear(mean, down, down_bias)
        for_direction, for_rate = F.gelu(logits).chunk(2, dim=-1)
        h, sigma = F.linear(for_direction, head, head_bias), F.linear(for_rate, rate_head, rate_bias).sigmoid_()
        c = -2 / (h.square().sum(-1, keepdim=True) + EPS**2)
        s = c * sigma * h
        readout = torch.bmm(h.to(x.dtype).unsqueeze(1), x.mT)                          # (B, 1, T)
        z = torch.addcmul(x, readout.mT, s.to(x.dtype).unsqueeze(1))
        ctx.save_for_backward(z, readout, mean, logits, for_direction, for_rate, h, sigma, c, s, down, head, rate_head)
        return z, z.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx, *grads: Tensor) -> tuple[Tensor, ...]:
        grad = torch.add(*grads)
        z, readout, mean, logits, for_direction, for_rate, h, sigma, c, s, down, head, rate_head = ctx.saved_tensors
        by_readout = torch.bmm(s.to(z.dtype).unsqueeze(1), grad.mT)                    # (B, 1, T)
        by_s = widened(torch.bmm(readout, grad).squeeze(1))
        by_rate = (by_s * s).sum(-1, keepdim=True) * (1 - sigma)
        by_h = widened(torch.bmm(by_readout, z).squeeze(1)) + c * (sigma * by_s + by_rate * h)
        by_logits = torch.ops.aten.gelu_backward(torch.cat([by_h @ head, by_rate @ rate_head], dim=-1), logits)
        by_x = by_logits @ down / z.shape[1]
        left, right = F.pad(by_readout, (0, 0, 0, 1), value=1.0), torch.stack([h, by_x], dim=1).to(z.dtype)
        by_maps = [part for by, given in ((by_logits, mean), (by_h, for_direction), (by_rate, for_rate)) for part in (by.mT @ given, by.sum(0))]
        return grad.baddbmm_(left.mT, right), *by_maps


class BenchmarkMHC(Residual):
    """mHC's maps on four slices of a single stream.

    As published H starts at 0.71 on its diagonal and 0.10 off it, not near the identity: each sublayer shrinks what tells the
    slices apart to 0.61 of it. aᵀx starts as half the sum of the slices.

    Arguments:
        width: D, divisible by 4.
        diagonal: H's logits start near this number on the diagonal and near 0 off it. Published 2; near the identity at 8.
    """

    spectrum = "1, the others inside the unit disc"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, diagonal: float = 2.0):
        super().__init__(width, index, count)
        if width % SLICES:
            raise ValueError(f"width must be divisible by {SLICES}, got {width}")
        self.maps = ConstrainedMaps(width, read=torch.full((SLICES,), 0.5), diagonal=diagonal, iterations=20,
                                    order="row-column", std=0.02, eps=1e-6, norm_weight=True)

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        read, write, mix = self.coefficients(state)
        slices = state.unflatten(-1, (SLICES, -1))
        rows = torch.cat([read.unsqueeze(-2), mix], dim=-2)  # one product: the state is read once, and once less on the way back
        heard, mixed = stream_mix(slices, rows).split([1, SLICES], dim=-2)
        update = sublayer(heard.squeeze(-2).repeat(1, 1, SLICES))
        return torch.addcmul(mixed, write.unsqueeze(-1), update.view_as(slices)).flatten(-2)

    def coefficients(self, state: Tensor) -> Coefficients:
        """a (B, T, 4), b (B, T, 4) and H (B, T, 4, 4) at a state (B, T, D)."""
        return self.maps(state)


class BenchmarkJPmHC(JPmHC):
    """JPmHC whose generators start as N(0, 0.02²), so that step 0 isn't the plain network's.

    The benchmark widens its whole trunk to four streams of the sublayer's width: input map, positions, last norm and
    output map have 4D features. Here they have D, and the learned `ends` stand between them and the streams. The
    residuals and the sublayers are the same, and as many parameters. Arguments as for `JPmHC`; width is the sublayer's.
    """

    def __init__(self, width: int, index: int = 0, count: int = 1, **options):
        super().__init__(width, index, count, **options)
        nn.init.normal_(self.generate.weight, std=0.02)
