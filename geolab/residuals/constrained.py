"""The maps of mHC: a = σ(·) + ε, b = 2σ(·) + ε′ and H = mix(·) of W (x / rms x) + bias.

The source is Xie et al. 2025, section 4, where mix is Sinkhorn(exp ·) and there is no ε.
DeepSeek-V4 has ε = 1e-6, inside Sinkhorn too, and a guard of 1e-6 in the root mean square. Hy4 has
H = I and ε′ = 1e-6 besides. (In transformers: `models/deepseek_v4/modeling_deepseek_v4.py` and
`models/hy_v4/modeling_hy_v4.py`.)

Legend: B batch, T positions, D width, n streams.
"""

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from geolab.checks import require_count, require_number, require_option, require_options
from geolab.operators import (
    constrained_join,
    rms_linear,
    stream_generate,
    stream_join,
    stream_read,
)
from geolab.operators.generate import Maps
from geolab.operators.joined import Form
from geolab.operators.streams import Unwritten
from geolab.residuals.base import Normed
from geolab.residuals.mixing import MIXES, mixes
from geolab.residuals.streams import StreamCoefficients, Streams
from geolab.residuals.weights import Weight, normal_matrix, put

MAPS = ("read", "write", "mix")  # a, b and H


@dataclass(frozen=True)
class MapOptions(Form):
    """The options by which a, b and H are made and started.

    Arguments:
        iterations, order: those of Sinkhorn's normalisation; the paper takes 20. They must be left
            out with another `mix`. Public code that applies the transpose has "column-row": see
            `operators.sinkhorn`.
        eps, write_eps, norm_eps: as in `Form`. DeepSeek-V4 has eps and norm_eps = 1e-6, Hy4 also
            write_eps = 1e-6.
        diagonal: the start of H's logits on the diagonal, 0 off it. At 8 a stream keeps 0.999.
            Another `mix` than "sinkhorn" starts as near to the identity, with its own biases. None
            is 8, or 6 with the published start.
        start: "plain" or "published". The published biases, as they are reported, are −3 for a, but
            +3 for the stream that each sublayer has as its own, 0 for b, and 6I − 3 for H.
        without: those of MAPS that the paper's ablation removes: a is then 1/n, b is 1, H is I.
        mix: how H is made of its logits: "sinkhorn", or exactly doubly stochastic, "permutations",
            "circulant", "kronecker" or "orthostochastic": see `mixing.mixes`.
        blocks: s, for mix="orthostochastic".
    """

    diagonal: float | None = None
    start: str = "plain"
    without: Collection[str] = ()
    mix: str = "sinkhorn"
    blocks: int = 2

    def __post_init__(self):
        super().__post_init__()
        require_option("start", self.start, ("plain", "published"))
        require_count("blocks", self.blocks)
        if self.diagonal is not None:
            require_number("diagonal", self.diagonal)
        require_options("without", self.without, MAPS)
        require_option("mix", self.mix, MIXES)


class ConstrainedMaps(nn.Module):
    """a, b and H of each token, made of one linear map of its features over their root mean square.

    A call gives the maps as `constrained_join` takes them. `coefficients` makes a, b and H of the
    logits W (x / rms x) + bias, and `at` of given tokens.

    Arguments:
        features: the number of features that the maps read, such as n · D.
        read: n numbers in (0, 1), the start of a.
        options: what is made of the maps, and their start.
        std: the standard deviation of the linear map's entries at the start.
        norm_weight: whether the norm has a weight, which the linear map could absorb.
        home: the stream whose bias of a is 3 at the published start.
    Attributes:
        fits: whether a, b and H are those of `constrained_join`: a and b are made of the token, and
            H is Sinkhorn's, a mixture of corners, or I. The ways "kronecker" and "orthostochastic"
            aren't among them.

    Where the linear map starts at zero, `scale`, which multiplies it, gets its first gradient at
    step 1.
    """

    def __init__(self, features: int, read: Sequence[float], options: MapOptions, std: float = 0.0,
                 norm_weight: bool = False, home: int = 0):
        super().__init__()
        n, self.form, self.read, self.home = len(read), options, tuple(read), home
        self.mix = mixes(options.iterations, options.order, options.eps, options.blocks)[
            options.mix]
        self.streams = n
        self.sizes = {name: size for name, size in zip(MAPS, (n, n, self.mix.count(n)), strict=True)
                      if name not in options.without}
        # the matrices of which H is a mixture
        known = self.mix.corners if "mix" in self.sizes else None
        self.register_buffer("corners", None if known is None else known(n), persistent=False)
        self.fits = {"read", "write"} <= set(self.sizes) and (
            "mix" not in self.sizes or options.mix == "sinkhorn" or known is not None)
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
        n, published = self.streams, self.form.start == "published"
        diagonal = self.form.diagonal
        if diagonal is None:
            diagonal = 6.0 if published else 8.0
        level = -3.0 if published and self.form.mix == "sinkhorn" else 0.0
        starts = {
            "read": 6.0 * (torch.arange(n) == self.home) - 3.0 if published
            else torch.tensor(self.read).logit(),
            "write": torch.zeros(n), "mix": self.mix.start(n, diagonal) + level}
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
        maps = self()
        return self.coefficients(
            rms_linear(x, maps.scaled(self.sizes.values()), self.form.norm_eps) + maps.bias)

    def forward(self) -> Maps:
        weight = self.generate()
        if self.norm_weight is not None:
            weight = weight * self.norm_weight
        return Maps(weight, self.scale, self.bias, self.corners)

    def coefficients(self, logits: Tensor) -> StreamCoefficients:
        """a, b and H of their logits, (..., outputs)."""
        n, shape = self.streams, logits.shape[:-1]
        sizes = list(self.sizes.values())
        named = dict(zip(self.sizes, logits.split(sizes, dim=-1) if sizes else (), strict=True))
        read, write, mix = (named.get(name) for name in MAPS)
        return StreamCoefficients(
            logits.new_full((*shape, n), 1 / n) if read is None
            else guarded(read.sigmoid(), self.form.eps),
            logits.new_ones(*shape, n) if write is None
            else guarded(2 * write.sigmoid(), self.form.write_eps),
            torch.eye(n).to(logits).expand(*shape, n, n) if mix is None
            else self.mix.matrix(mix, n))


def guarded(weights: Tensor, eps: float) -> Tensor:
    """The weights plus ε."""
    return weights + eps if eps else weights


class ConstrainedStreams(Streams):
    """Streams whose a, b and H are constrained maps of the token's whole normalised state.

    Arguments:
        width: D.
        streams: n, at least 2; the paper takes 4.
        maps: the fields of `MapOptions`.
    """

    spectrum = "1, the others inside the unit disc"
    values = MapOptions
    ahead = 0  # how many sublayers later the a that it makes is used

    def __init__(self, width: int, index: int = 0, count: int = 1, *, streams: int = 4, **maps):
        super().__init__(width, index, count, streams=streams, fewest=2)
        home = (index + self.ahead) % streams  # the stream that the a it makes reads most
        # between one stream and the mean of all
        read = [((k == home) + 1 / streams) / 2 for k in range(streams)]
        self.maps = ConstrainedMaps(streams * width, read, MapOptions(**maps), home=home)
        # a subclass may take another step in `forward` than in `step`
        own = next(cls for cls in type(self).__mro__ if "step" in vars(cls))
        self.joins = (self.maps.fits or bool(self.maps.sizes) and not self.ahead) and all(
            getattr(type(self), name) is getattr(own, name) for name in ("forward", "coefficients"))

    @classmethod
    def idle(cls, options: Mapping[str, Any]) -> dict[str, str]:
        require_options("without", options["without"], MAPS)  # this runs before the constructor
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

    def step(self, state: Tensor | Unwritten, sublayer: Normed) -> Unwritten:
        """Do the step of `forward` without its last write, from a state that is written or not."""
        if not self.maps.fits:
            return self._in_turn(state, sublayer)
        z, u, given = constrained_join(state, self.maps(), self.maps.form, norm=sublayer.norm)
        return Unwritten(z, sublayer.f(u), given)

    def _in_turn(self, state: Tensor | Unwritten, sublayer: Normed) -> Unwritten:
        """The same step where no operator makes the coefficients and uses them at once."""
        maps, eps = self.maps(), self.maps.form.norm_eps
        weight = maps.scaled(self.maps.sizes.values())
        if isinstance(state, Unwritten):
            x, numbers, ports = stream_join(state.x, *state.apart(), state.update, weight, eps)
        else:
            x, numbers, ports = stream_generate(state, weight, eps)
        read, write, mix = self.maps.coefficients(numbers + maps.bias)
        return Unwritten(x, sublayer.f(stream_read(x, read, ports, sublayer.norm)), (mix, write))

    def coefficients(self, state: Tensor) -> StreamCoefficients:
        return self.maps.at(state.flatten(-2))

    @abstractmethod
    def reduce(self, state: Tensor) -> Tensor:
        """state -> (B, T, D)."""
