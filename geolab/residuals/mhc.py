"""x ← H x + b ⊗ F(norm aᵀx), H doubly stochastic: manifold-constrained hyper-connections (mHC).

The source is Xie et al. 2025, section 4. a = σ(·), b = 2σ(·) and H = Sinkhorn(exp ·) of linear maps
of the whole normalised state. Rows and columns of H sum to one: its singular values are at most 1,
the mean of the streams passes unchanged, and their differences can only shrink.

The preprint prints no initial biases. Here a sums to one, b = 1 and H is near the identity, so that
step 0 is the plain pre-norm network. The aᵢ differ, and sublayer k reads stream k mod n most. The
appendix A.6 of a later version of the paper, which we haven't seen, is reported to print biases of
the same kind (PaddleFleet, pull requests 1848 and 1849): −3 for a, but +3 for one stream, which
each sublayer has as its own; 0 for b; and 6I − 3 for H. They are start="published". DeepSeek-V4's
network is this one with eps=1e-6, norm_eps=1e-6 and readout="learned".
Streams that start as copies and are read and written alike stay copies, up to rounding: then H
does nothing and learns nothing.

Legend: B batch, T positions, D width, n streams.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from geolab.checks import require_option
from geolab.operators import rms_linear, stream_read
from geolab.residuals.constrained import ConstrainedStreams, guarded
from geolab.residuals.weights import zero_matrix


class MHC(ConstrainedStreams):
    """mHC with the paper's parameterisation, at streams of full width.

    The first sublayer's H acts on copies: its rows sum to one, so it changes nothing there. The
    last sublayer's H stands before the mean, which columns that sum to one keep: with
    order="row-column" and readout="mean" it has no gradient either, and with an exact `mix` too. In
    between, the reads tell the streams apart and the writes learn from it. If either is missing, as
    in the paper's ablation, the streams stay copies: H does nothing and learns nothing, and a read
    only scales the sublayer's input, which the norm undoes.

    Arguments:
        readout: "mean" of the streams, or "learned": their sum with weights σ(·) + eps like those
            of a, which start at 1/n, as in DeepSeek's released kernels. The paper doesn't say.
        width, streams, iterations, order, diagonal, start, without, mix, blocks, eps, write_eps,
            norm_eps: as for `ConstrainedStreams`.
    """

    def __init__(self, width: int, index: int = 0, count: int = 1, *, readout: str = "mean",
                 **options):
        super().__init__(width, index, count, **options)
        require_option("readout", readout, ("mean", "learned"))
        self.readout = readout
        if self.last and readout == "learned":
            self.head = Readout(self.streams, width, self.maps.form.norm_eps,
                                self.maps.form.eps)

    @classmethod
    def idle(cls, options: Mapping[str, Any]) -> dict[str, str]:
        found = super().idle(options)
        if options["readout"] == "learned":  # it has both guards
            found = {name: why for name, why in found.items() if name not in ("eps", "norm_eps")}
        return found

    def reduce(self, state: Tensor) -> Tensor:
        return state.mean(-2) if self.readout == "mean" else self.head(state)


class Readout(nn.Module):
    """Σ wᵢ xᵢ with weights w = σ(s W (X / rms X) + b) + ε that start at 1/n: (B, T, n, D) ->
    (B, T, D).
    """

    decayed = ("weight",)

    def __init__(self, streams: int, width: int, norm_eps: float, eps: float = 0.0):
        super().__init__()
        self.streams, self.norm_eps, self.eps = streams, norm_eps, eps
        self.weight = nn.Parameter(torch.empty(streams, streams * width))
        self.scale = nn.Parameter(torch.empty(1))
        self.bias = nn.Parameter(torch.empty(streams))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        zero_matrix(self.weight)
        nn.init.constant_(self.scale, 0.01)
        nn.init.constant_(self.bias, -math.log(self.streams - 1))

    def forward(self, state: Tensor) -> Tensor:
        numbers = rms_linear(state.flatten(-2), self.weight, self.norm_eps)
        weights = (self.scale * numbers + self.bias).sigmoid()
        return stream_read(state, guarded(weights, self.eps))
