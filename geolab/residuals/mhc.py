"""x ← H x + b ⊗ F(norm aᵀx), H doubly stochastic: manifold-constrained hyper-connections (mHC, Xie et al. 2025, section 4).

a = σ(·), b = 2σ(·) and H = Sinkhorn(exp ·) of linear maps of the whole normalised state. Rows and columns of H sum to one:
its singular values are at most 1, the mean of the streams passes unchanged, and all else in them can only shrink.

The paper prints no initial biases. Here a sums to one, b = 1 and H is near the identity, so that step 0 is the plain
pre-norm network. The aᵢ differ, and sublayer k reads stream k mod n most. Streams that start as copies and are read and
written alike stay copies, but for rounding: then H does nothing and learns nothing.

Legend: B batch, T positions, D width, n streams.
"""

import torch
from torch import Tensor, nn

from geolab.operators import rms_linear, sinkhorn, stream_read
from geolab.residuals.base import require_option
from geolab.residuals.streams import Coefficients, Streams


class ConstrainedMaps(nn.Module):
    """a, b and H of each token, by one linear map of its rms-normalised features: (..., features) -> Coefficients.

    Arguments:
        features: n · D, or what there is to read from.
        read: (n,), a where the linear map says nothing; each in (0, 1).
        diagonal: the bias on the diagonal of H's logits; 0 off it.
        iterations, order: of Sinkhorn's normalisation.
        std: of the linear map's entries at the start.
        eps: the norm's guard.
        norm_weight: whether the norm has a weight, which the linear map could absorb.
    """

    def __init__(self, features: int, read: Tensor, diagonal: float, iterations: int, order: str, std: float = 0.0,
                 eps: float = 1e-20, norm_weight: bool = False):
        super().__init__()
        require_option("order", order, ("column-row", "row-column"))
        if iterations < 1:
            raise ValueError(f"iterations must be at least 1, got {iterations}")
        n = len(read)
        self.streams, self.iterations, self.order, self.eps = n, iterations, order, eps
        self.generate = nn.Linear(features, n * (n + 2), bias=False)
        nn.init.normal_(self.generate.weight, std=std)
        self.norm_weight = nn.Parameter(torch.ones(features)) if norm_weight else None
        self.scale = nn.Parameter(torch.full((3,), 0.01))  # of the logits of a, b and H
        self.bias = nn.Parameter(torch.cat([read.logit(), torch.zeros(n), diagonal * torch.eye(n).flatten()]))

    def extra_repr(self) -> str:
        return f"streams={self.streams}, iterations={self.iterations}, order={self.order!r}, eps={self.eps}"

    def forward(self, x: Tensor) -> Coefficients:
        n, weight = self.streams, self.generate.weight
        scale = torch.cat([s.expand(k) for s, k in zip(self.scale, (n, n, n * n), strict=True)])
        weight = scale.unsqueeze(-1) * (weight if self.norm_weight is None else weight * self.norm_weight)  # not a pass over all tokens
        read, write, mix = (rms_linear(x, weight, self.eps) + self.bias).split([n, n, n * n], dim=-1)
        return Coefficients(read.sigmoid(), 2 * write.sigmoid(), sinkhorn(mix.unflatten(-1, (n, n)), self.iterations, self.order))


class MHC(Streams):
    """mHC with the paper's parameterisation, at streams of full width.

    The first sublayer's H acts on copies: its rows sum to one, so it changes nothing there, whatever it is.

    Arguments:
        width: D.
        streams: n, at least 2; the paper takes 4.
        iterations: of Sinkhorn's normalisation; the paper takes 20.
        order: "column-row" (the paper: rows exact at the end) or "row-column" (columns exact).
        diagonal: H's logits start at this number on the diagonal and 0 off it. The share that a stream keeps is 0.999 at 8.
        readout: "mean" of the streams, or "learned": their sum with weights σ(·) like those of a, which start at 1/n, as
            DeepSeek's released kernels have it. The paper doesn't say.
    """

    spectrum = "1, the others inside the unit disc"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, streams: int = 4, iterations: int = 20,
                 order: str = "column-row", diagonal: float = 8.0, readout: str = "mean"):
        super().__init__(width, index, count, streams=streams, fewest=2)
        require_option("readout", readout, ("mean", "learned"))
        self.readout = readout
        read = (torch.eye(streams)[index % streams] + 1 / streams) / 2  # between one stream and the mean of all
        self.maps = ConstrainedMaps(streams * width, read, diagonal, iterations, order)
        if self.last and readout == "learned":
            self.head = nn.Linear(streams * width, streams, bias=False)
            nn.init.zeros_(self.head.weight)
            self.head_scale = nn.Parameter(torch.tensor([0.01]))
            self.head_bias = nn.Parameter(torch.full((streams,), 1 / streams).logit())

    def extra_repr(self) -> str:
        return f"readout={self.readout!r}"

    def coefficients(self, state: Tensor) -> Coefficients:
        return self.maps(state.flatten(-2))

    def reduce(self, state: Tensor) -> Tensor:
        if self.readout == "mean":
            return state.mean(-2)
        numbers = rms_linear(state.flatten(-2), self.head.weight, self.maps.eps)
        return stream_read(state, (self.head_scale * numbers + self.head_bias).sigmoid())
