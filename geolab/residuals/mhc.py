"""x ← H x + b ⊗ F(norm aᵀx), H doubly stochastic: manifold-constrained hyper-connections (mHC).

The source is Xie et al. 2025, section 4. a = σ(·), b = 2σ(·) and H = Sinkhorn(exp ·) of linear maps
of the whole normalised state. Rows and columns of H sum to one: its singular values are at most 1,
the mean of the streams passes unchanged, and everything else in them can only shrink.

The paper prints no initial biases. Here a sums to one, b = 1 and H is near the identity, so that
step 0 is the plain pre-norm network. The aᵢ differ, and sublayer k reads stream k mod n most.
Streams that start as copies and are read and written alike stay copies, up to rounding: then H
does nothing and learns nothing.

Legend: B batch, T positions, D width, n streams.
"""

from collections.abc import Collection

import torch
from torch import Tensor, nn

from geolab.checks import require_count, require_number, require_option
from geolab.operators import rms_linear, sinkhorn, stream_read
from geolab.residuals.streams import StreamCoefficients, Streams

MAPS = ("read", "write", "mix")  # a, b and H


class ConstrainedMaps(nn.Module):
    """a, b and H of each token: (..., features) -> StreamCoefficients.

    They come from one linear map of the token's features, divided by their root mean square.

    Arguments:
        features: n · D, or the size of what the maps read.
        read: (n,), the start of a; each number in (0, 1).
        diagonal: the bias on the diagonal of H's logits, which is 0 off the diagonal.
        iterations, order: of Sinkhorn's normalisation.
        std: the standard deviation of the linear map's entries at the start.
        eps: the norm's guard.
        norm_weight: whether the norm has a weight, which the linear map could absorb.
        without: those of MAPS that stay what the paper's ablation puts in their place: a = 1/n,
            b = 1, H = I.

    Where the linear map starts at zero, `scale`, which multiplies it, gets its first gradient at
    step 1.
    """

    def __init__(self, features: int, read: Tensor, diagonal: float, iterations: int, order: str,
                 std: float = 0.0, eps: float = 1e-20, norm_weight: bool = False,
                 without: Collection[str] = ()):
        super().__init__()
        require_option("order", order, ("column-row", "row-column"))
        require_count("iterations", iterations)
        require_number("diagonal", diagonal)
        for name in without:
            require_option("without", name, MAPS)
        n = len(read)
        self.streams, self.iterations, self.order, self.eps = n, iterations, order, eps
        starts = (read.logit(), torch.zeros(n), diagonal * torch.eye(n).flatten())
        biases = {name: start for name, start in zip(MAPS, starts, strict=True)
                  if name not in without}
        self.sizes = {name: len(bias) for name, bias in biases.items()}
        if not biases:
            return
        self.generate = nn.Linear(features, sum(self.sizes.values()), bias=False)
        nn.init.normal_(self.generate.weight, std=std)
        self.norm_weight = nn.Parameter(torch.ones(features)) if norm_weight else None
        self.scale = nn.Parameter(torch.full((len(biases),), 0.01))  # of the logits of a, b and H
        self.bias = nn.Parameter(torch.cat(list(biases.values())))

    def forward(self, x: Tensor) -> StreamCoefficients:
        n, shape, logits = self.streams, x.shape[:-1], self._logits(x) if self.sizes else {}
        read, write, mix = (logits.get(name) for name in MAPS)
        return StreamCoefficients(
            x.new_full((*shape, n), 1 / n) if read is None else read.sigmoid(),
            x.new_ones(*shape, n) if write is None else 2 * write.sigmoid(),
            torch.eye(n).to(x).expand(*shape, n, n) if mix is None
            else sinkhorn(mix.unflatten(-1, (n, n)), self.iterations, self.order))

    def _logits(self, x: Tensor) -> dict[str, Tensor]:
        sizes, weight = list(self.sizes.values()), self.generate.weight
        scale = torch.cat([s.expand(k) for s, k in zip(self.scale, sizes, strict=True)])
        if self.norm_weight is not None:
            weight = weight * self.norm_weight
        weight = scale.unsqueeze(-1) * weight  # scale the matrix, not all the tokens' logits
        logits = rms_linear(x, weight, self.eps) + self.bias
        return dict(zip(self.sizes, logits.split(sizes, dim=-1), strict=True))


class MHC(Streams):
    """mHC with the paper's parameterisation, at streams of full width.

    The first sublayer's H acts on copies: its rows sum to one, so it changes nothing there. The
    last sublayer's H stands before the mean, which columns that sum to one keep: with
    order="row-column" and readout="mean" it has no gradient either. In between, the reads tell the
    streams apart and the writes learn from it. Without either, as in the paper's ablation, the
    streams stay copies: H does nothing and learns nothing, and a read alone only scales what the
    sublayer's norm undoes.

    Arguments:
        width: D.
        streams: n, at least 2; the paper takes 4.
        iterations: of Sinkhorn's normalisation; the paper takes 20.
        order: "column-row" (the paper: rows are exact at the end) or "row-column" (columns are).
        diagonal: the start of H's logits on the diagonal, 0 off it. At 8 a stream keeps 0.999.
        readout: "mean" of the streams, or "learned": their sum with weights σ(·) like those of a,
            which start at 1/n, as in DeepSeek's released kernels. The paper doesn't say.
        without: those of "read", "write" and "mix" that the paper's ablation removes: a is then
            1/n, b is 1, H is I.
    """

    spectrum = "1, the others inside the unit disc"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, streams: int = 4,
                 iterations: int = 20, order: str = "column-row", diagonal: float = 8.0,
                 readout: str = "mean", without: Collection[str] = ()):
        super().__init__(width, index, count, streams=streams, fewest=2)
        require_option("readout", readout, ("mean", "learned"))
        self.readout, self.without = readout, tuple(without)
        # between one stream and the mean of all
        read = (torch.eye(streams)[index % streams] + 1 / streams) / 2
        self.maps = ConstrainedMaps(streams * width, read, diagonal, iterations, order,
                                    without=without)
        if self.last and readout == "learned":
            self.head = nn.Linear(streams * width, streams, bias=False)
            nn.init.zeros_(self.head.weight)
            self.head_scale = nn.Parameter(torch.tensor([0.01]))
            self.head_bias = nn.Parameter(torch.full((streams,), 1 / streams).logit())

    def coefficients(self, state: Tensor) -> StreamCoefficients:
        return self.maps(state.flatten(-2))

    def reduce(self, state: Tensor) -> Tensor:
        if self.readout == "mean":
            return state.mean(-2)
        numbers = rms_linear(state.flatten(-2), self.head.weight, self.maps.eps)
        return stream_read(state, (self.head_scale * numbers + self.head_bias).sigmoid())
