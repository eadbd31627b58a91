"""x ← H x + b ⊗ F(norm aᵀx), H doubly stochastic: manifold-constrained hyper-connections (mHC).

The source is Xie et al. 2025, section 4. a = σ(·), b = 2σ(·) and H = Sinkhorn(exp ·) of linear maps
of the whole normalised state. Rows and columns of H sum to one: its singular values are at most 1,
the mean of the streams passes unchanged, and their differences can only shrink.

The preprint prints no initial biases. Here a sums to one, b = 1 and H is near the identity, so that
step 0 is the plain pre-norm network. The aᵢ differ, and sublayer k reads stream k mod n most. A
later version of the paper, which we haven't seen, is reported to print biases of the same kind
(PaddleFleet, pull request 1848): −3 for a, but +3 for one stream, which each sublayer has as its
own; 0 for b; and 6I − 3 for H.
Streams that start as copies and are read and written alike stay copies, up to rounding: then H
does nothing and learns nothing.

Legend: B batch, T positions, D width, n streams.
"""

import math
from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from geolab.checks import require_count, require_number, require_option
from geolab.operators import (
    rms_linear,
    sinkhorn,
    stream_generate,
    stream_join,
    stream_mix_write,
    stream_read,
)
from geolab.residuals.base import Sublayer
from geolab.residuals.streams import StreamCoefficients, Streams
from geolab.residuals.weights import Weight, as_linear, normal_matrix, put

MAPS = ("read", "write", "mix")  # a, b and H


class ConstrainedMaps(nn.Module):
    """a, b and H of each token, made of one linear map of its features over their root mean square.

    `maps()` gives the map's W and bias. The caller applies W, by `rms_linear` or joined with the
    write of the sublayer before. `coefficients` makes a, b and H of the logits
    W (x / rms x) + bias. `at` does both for given tokens.

    Arguments:
        features: the number of features that the maps read, such as n · D.
        read: n numbers in (0, 1), the start of a.
        diagonal: the bias on the diagonal of H's logits, which is 0 off the diagonal.
        iterations, order: those of Sinkhorn's normalisation.
        std: the standard deviation of the linear map's entries at the start.
        eps: the norm's guard.
        norm_weight: whether the norm has a weight, which the linear map could absorb.
        without: those of MAPS that are constants, as in the paper's ablation: a = 1/n, b = 1, H =
            I.

    Where the linear map starts at zero, `scale`, which multiplies it, gets its first gradient at
    step 1.
    """

    def __init__(self, features: int, read: Sequence[float], diagonal: float, iterations: int,
                 order: str, std: float = 0.0, eps: float = 1e-20, norm_weight: bool = False,
                 without: Collection[str] = ()):
        super().__init__()
        require_option("order", order, ("column-row", "row-column"))
        require_count("iterations", iterations)
        require_number("diagonal", diagonal)
        for name in without:
            require_option("without", name, MAPS)
        n = len(read)
        self.streams, self.iterations, self.order, self.eps = n, iterations, order, eps
        self.read, self.diagonal = tuple(read), diagonal
        self.sizes = {name: size for name, size in zip(MAPS, (n, n, n * n), strict=True)
                      if name not in without}
        if not self.sizes:
            return
        self.generate = Weight(sum(self.sizes.values()), features, decays=True,
                               how=partial(normal_matrix, std=std))
        self.norm_weight = nn.Parameter(torch.empty(features)) if norm_weight else None
        self.scale = nn.Parameter(torch.empty(len(self.sizes)))  # of the logits of a, b and H
        self.bias = nn.Parameter(torch.empty(sum(self.sizes.values())))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if not self.sizes:
            return
        n = self.streams
        starts = {"read": torch.tensor(self.read).logit(), "write": torch.zeros(n),
                  "mix": self.diagonal * torch.eye(n).flatten()}
        put(self.bias, torch.cat([starts[name] for name in self.sizes]))
        nn.init.constant_(self.scale, 0.01)
        if self.norm_weight is not None:
            nn.init.ones_(self.norm_weight)

    def at(self, x: Tensor) -> StreamCoefficients:
        """The coefficients of tokens x, (..., features)."""
        if not self.sizes:
            return self.coefficients(x[..., :0])
        weight, bias = self()
        return self.coefficients(rms_linear(x, weight, self.eps) + bias)

    def forward(self) -> tuple[Tensor, Tensor]:
        """W (outputs, features) and the bias (outputs)."""
        weight, sizes = self.generate(), self.sizes.values()
        scale = torch.cat([s.expand(k) for s, k in zip(self.scale, sizes, strict=True)])
        if self.norm_weight is not None:
            weight = weight * self.norm_weight
        # scale the matrix, not all the tokens' logits
        return scale.unsqueeze(-1) * weight, self.bias

    def coefficients(self, logits: Tensor) -> StreamCoefficients:
        """a, b and H of their logits, (..., outputs)."""
        n, shape = self.streams, logits.shape[:-1]
        sizes = list(self.sizes.values())
        named = dict(zip(self.sizes, logits.split(sizes, dim=-1) if sizes else (), strict=True))
        read, write, mix = (named.get(name) for name in MAPS)
        return StreamCoefficients(
            logits.new_full((*shape, n), 1 / n) if read is None else read.sigmoid(),
            logits.new_ones(*shape, n) if write is None else 2 * write.sigmoid(),
            torch.eye(n).to(logits).expand(*shape, n, n) if mix is None
            else sinkhorn(mix.unflatten(-1, (n, n)), self.iterations, self.order))


class Unwritten(NamedTuple):
    """A state H X + b ⊗ h before it is written, so that the next sublayer can write and read it at
    once.
    """

    x: Tensor       # X: (B, T, n, D)
    mix: Tensor     # H: (B, T, n, n)
    write: Tensor   # b: (B, T, n)
    update: Tensor  # h: (B, T, D)

    def written(self) -> Tensor:
        """(B, T, n, D)."""
        return stream_mix_write(*self)


class MHC(Streams):
    """mHC with the paper's parameterisation, at streams of full width.

    The first sublayer's H acts on copies: its rows sum to one, so it changes nothing there. The
    last sublayer's H stands before the mean, which columns that sum to one keep: with
    order="row-column" and readout="mean" it has no gradient either. In between, the reads tell the
    streams apart and the writes learn from it. If either is missing, as in the paper's ablation,
    the streams stay copies: H does nothing and learns nothing, and a read only scales the
    sublayer's input, which the norm undoes.

    Arguments:
        width: D.
        streams: n, at least 2; the paper takes 4.
        iterations: the number of iterations of Sinkhorn's normalisation; the paper takes 20.
        order: "column-row" (the paper: rows are exact at the end) or "row-column" (columns are).
            Public code that applies the transpose has "column-row": see `operators.sinkhorn`.
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
        read = [((k == index % streams) + 1 / streams) / 2 for k in range(streams)]
        self.maps = ConstrainedMaps(streams * width, read, diagonal, iterations, order,
                                    without=without)
        if self.last and readout == "learned":
            self.head = Readout(streams, width, self.maps.eps)

    @property
    def joins(self) -> bool:
        # a subclass may take another step
        return (type(self).forward is MHC.forward and type(self).coefficients is MHC.coefficients
                and bool(self.maps.sizes))

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        if self.joins:
            return self.step(state, sublayer).written()
        return super().forward(state, sublayer)

    def step(self, state: Tensor | Unwritten, sublayer: Sublayer) -> Unwritten:
        """Do the step of `forward` without its last write, from a state that is written or not."""
        weight, bias = self.maps()
        if isinstance(state, Unwritten):
            x, numbers, ports = stream_join(*state, weight, self.maps.eps)
        else:
            x, numbers, ports = stream_generate(state, weight, self.maps.eps)
        read, write, mix = self.maps.coefficients(numbers + bias)
        return Unwritten(x, mix, write, sublayer(stream_read(x, read, ports)))

    def coefficients(self, state: Tensor) -> StreamCoefficients:
        return self.maps.at(state.flatten(-2))

    def reduce(self, state: Tensor) -> Tensor:
        return state.mean(-2) if self.readout == "mean" else self.head(state)


class Readout(nn.Module):
    """Σ wᵢ xᵢ with weights w = σ(s W (X / rms X) + b) that start at 1/n: (B, T, n, D) -> (B, T, D).
    """

    decayed = ("weight",)

    def __init__(self, streams: int, width: int, eps: float):
        super().__init__()
        self.streams, self.eps = streams, eps
        self.weight = nn.Parameter(torch.empty(streams, streams * width))
        self.scale = nn.Parameter(torch.empty(1))
        self.bias = nn.Parameter(torch.empty(streams))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        as_linear(self.weight)  # overwritten, but the seeds of stored runs count these draws
        nn.init.zeros_(self.weight)
        nn.init.constant_(self.scale, 0.01)
        nn.init.constant_(self.bias, -math.log(self.streams - 1))

    def forward(self, state: Tensor) -> Tensor:
        numbers = rms_linear(state.flatten(-2), self.weight, self.eps)
        return stream_read(state, (self.scale * numbers + self.bias).sigmoid())
