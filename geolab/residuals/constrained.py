"""The maps of mHC: a = σ(·) + ε, b = 2σ(·) + ε′ and H = mix(·) of W (x / rms x) + bias.

The source is Xie et al. 2025, section 4, where mix is Sinkhorn(exp ·) and there is no ε.
DeepSeek-V4 has ε = 1e-6, inside Sinkhorn too, and a guard of 1e-6 in the root mean square. Hy4 has
H = I and ε′ = 1e-6 besides. (In transformers: `models/deepseek_v4/modeling_deepseek_v4.py` and
`models/hy_v4/modeling_hy_v4.py`.)

Legend: B batch, T positions, D width, n streams.
"""

from abc import ABC
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from geolab.checks import require_count, require_number, require_option
from geolab.operators import constrained_join, rms_linear
from geolab.operators.streams import Norm
from geolab.residuals.mixing import mixes
from geolab.residuals.streams import StreamCoefficients, Streams
from geolab.residuals.weights import Weight, normal_matrix, put

MAPS = ("read", "write", "mix")  # a, b and H


class ConstrainedMaps(nn.Module):
    """a, b and H of each token, made of one linear map of its features over their root mean square.

    `maps()` gives the map's W and bias. The caller applies W, by `rms_linear` or joined with the
    write of the sublayer before. `coefficients` makes a, b and H of the logits
    W (x / rms x) + bias. `at` does both for given tokens. `constrained_join` takes the maps as they
    are stored, where it `fits` them.

    Arguments:
        features: the number of features that the maps read, such as n · D.
        read: n numbers in (0, 1), the start of a.
        diagonal: the bias on the diagonal of H's logits, which is 0 off the diagonal. Another `mix`
            than "sinkhorn" starts as near to the identity, with its own biases.
        iterations, order: those of Sinkhorn's normalisation.
        std: the standard deviation of the linear map's entries at the start.
        norm_eps: the norm's guard.
        norm_weight: whether the norm has a weight, which the linear map could absorb.
        without: those of MAPS that are constants, as in the paper's ablation: a = 1/n, b = 1, H =
            I.
        mix: how H is made of its logits, a name of `mixing.mixes`.
        blocks: s, for mix="orthostochastic".
        eps: ε, added to a, and inside Sinkhorn.
        write_eps: ε′, added to b.
        home: a stream, for the published start: its bias of a is 3, those of the others are −3, and
            H's are `diagonal` I − 3 where `mix` is "sinkhorn". None is the start from `read`.

    Where the linear map starts at zero, `scale`, which multiplies it, gets its first gradient at
    step 1.
    """

    def __init__(self, features: int, read: Sequence[float], diagonal: float, iterations: int,
                 order: str, std: float = 0.0, norm_eps: float = 1e-20, norm_weight: bool = False,
                 without: Collection[str] = (), mix: str = "sinkhorn", blocks: int = 2,
                 eps: float = 0.0, write_eps: float = 0.0, home: int | None = None):
        super().__init__()
        require_option("order", order, ("column-row", "row-column"))
        require_count("iterations", iterations)
        require_count("blocks", blocks)
        require_number("diagonal", diagonal)
        for name, guard in (("norm_eps", norm_eps), ("eps", eps), ("write_eps", write_eps)):
            require_number(name, guard, 0)
        without = tuple(without)
        for name in without:
            require_option("without", name, MAPS)
        ways = mixes(iterations, order, eps, blocks)
        require_option("mix", mix, ways)
        n, self.kind, self.mix, self.home = len(read), mix, ways[mix], home
        self.level = -3.0 if home is not None and mix == "sinkhorn" else 0.0  # of H's logits
        self.streams, self.iterations, self.order = n, iterations, order
        self.norm_eps, self.eps, self.write_eps = norm_eps, eps, write_eps
        self.read, self.diagonal = tuple(read), diagonal
        self.sizes = {name: size for name, size in zip(MAPS, (n, n, self.mix.count(n)), strict=True)
                      if name not in without}
        # the matrices of which H is a mixture
        known = self.mix.corners if "mix" in self.sizes else None
        self.register_buffer("corners", None if known is None else known(n), persistent=False)
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
        starts = {
            "read": torch.tensor(self.read).logit() if self.home is None
            else 6.0 * (torch.arange(n) == self.home) - 3.0,
            "write": torch.zeros(n), "mix": self.mix.start(n, self.diagonal) + self.level}
        put(self.bias, torch.cat([starts[name] for name in self.sizes]))
        nn.init.constant_(self.scale, 0.01)
        if self.corners is not None:
            put(self.corners, self.mix.corners(n))
        if self.norm_weight is not None:
            nn.init.ones_(self.norm_weight)

    def at(self, x: Tensor) -> StreamCoefficients:
        """The coefficients of tokens x, (..., features)."""
        if not self.sizes:
            return self.coefficients(x[..., :0])
        weight, bias = self()
        return self.coefficients(rms_linear(x, weight, self.norm_eps) + bias)

    @property
    def fits(self) -> bool:
        """Whether a, b and H are those of `constrained_join`: a and b are made of the token, and H
        is Sinkhorn's, a mixture of corners, or I. The ways "kronecker" and "orthostochastic" aren't
        among them.
        """
        return {"read", "write"} <= set(self.sizes) and (
            "mix" not in self.sizes or self.kind == "sinkhorn" or self.corners is not None)

    def join(self, x: Tensor, given: Tensor | None, update: Tensor | None,
             read: Tensor | None = None, norm: Norm | None = None) -> tuple[Tensor, ...]:
        """`constrained_join` with these maps, where it fits them."""
        weight, scale, bias = self(apart=True)
        return constrained_join(x, given, update, weight, scale, bias, self.norm_eps,
                                self.iterations, self.order, self.eps, self.write_eps, self.corners,
                                read, norm)

    def forward(self, apart: bool = False) -> tuple[Tensor, ...]:
        """W (outputs, features) and the bias (outputs); `apart`, W, its scales and the bias."""
        weight, sizes = self.generate(), self.sizes.values()
        if apart:
            return (weight if self.norm_weight is None else weight * self.norm_weight, self.scale,
                    self.bias)
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
            logits.new_full((*shape, n), 1 / n) if read is None
            else guarded(read.sigmoid(), self.eps),
            logits.new_ones(*shape, n) if write is None
            else guarded(2 * write.sigmoid(), self.write_eps),
            torch.eye(n).to(logits).expand(*shape, n, n) if mix is None
            else self.mix.matrix(mix, n))


def guarded(weights: Tensor, eps: float) -> Tensor:
    """The weights plus ε."""
    return weights + eps if eps else weights


class ConstrainedStreams(Streams, ABC):
    """Streams whose a, b and H are constrained maps of the token's whole normalised state.

    Arguments:
        width: D.
        streams: n, at least 2; the paper takes 4.
        iterations: the number of iterations of Sinkhorn's normalisation; the paper takes 20. It and
            `order` must be left out with another `mix`.
        order: "column-row" (the paper: rows are exact at the end) or "row-column" (columns are).
            Public code that applies the transpose has "column-row": see `operators.sinkhorn`.
        diagonal: the start of H's logits on the diagonal, 0 off it. At 8 a stream keeps 0.999.
        start: "plain" or "published". The published biases, as they are reported, are −3 for a, but
            +3 for the stream that each sublayer has as its own, 0 for b, and 6I − 3 for H. There
            `diagonal`, 8 otherwise, is 6, and another `mix` than Sinkhorn's starts as near to the
            identity.
        without: those of "read", "write" and "mix" that the paper's ablation removes: a is then
            1/n, b is 1, H is I.
        mix: how H is made of its logits: "sinkhorn", or exactly doubly stochastic, "permutations",
            "circulant", "kronecker" or "orthostochastic": see `mixing.mixes`.
        blocks: s, for mix="orthostochastic".
        eps: added to a, and inside Sinkhorn's normalisation; DeepSeek-V4 takes 1e-6.
        write_eps: added to b; Hy4 takes 1e-6.
        norm_eps: the guard of the generator's norm; DeepSeek-V4 takes 1e-6.
    """

    spectrum = "1, the others inside the unit disc"
    ahead = 0  # how many sublayers later the a that it makes is used

    def __init__(self, width: int, index: int = 0, count: int = 1, *, streams: int = 4,
                 iterations: int = 20, order: str = "column-row", diagonal: float | None = None,
                 start: str = "plain", without: Collection[str] = (), mix: str = "sinkhorn",
                 blocks: int = 2, eps: float = 0.0, write_eps: float = 0.0,
                 norm_eps: float = 1e-20):
        super().__init__(width, index, count, streams=streams, fewest=2)
        require_option("start", start, ("plain", "published"))
        if diagonal is None:
            diagonal = 6.0 if start == "published" else 8.0
        self.start, self.without, self.mix = start, tuple(without), mix
        home = (index + self.ahead) % streams  # the stream that the a it makes reads most
        # between one stream and the mean of all
        read = [((k == home) + 1 / streams) / 2 for k in range(streams)]
        self.maps = ConstrainedMaps(
            streams * width, read, diagonal, iterations, order, norm_eps=norm_eps,
            without=self.without, mix=mix, blocks=blocks, eps=eps, write_eps=write_eps,
            home=home if start == "published" else None)

    @classmethod
    def idle(cls, options: Mapping[str, Any]) -> dict[str, str]:
        without, mix = tuple(options["without"]), options["mix"]
        removed = f"without={without!r}"
        found = {}
        if "mix" in without:
            found = dict.fromkeys(("mix", "diagonal", "iterations", "order", "blocks"), removed)
        else:
            if mix != "sinkhorn":
                found = dict.fromkeys(("iterations", "order"), f"mix={mix!r}")
            if mix != "orthostochastic":
                found["blocks"] = f"mix={mix!r}"
        if "write" in without:
            found["write_eps"] = removed
        if "read" in without and "mix" in without:
            found |= dict.fromkeys(("eps", "start"), removed)
        elif "read" in without and mix != "sinkhorn":
            found["eps"] = f"{removed} and mix={mix!r}"
        if set(MAPS) <= set(without):
            found["norm_eps"] = removed
        return found
