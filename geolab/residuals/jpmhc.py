"""x ← Y x + s b ⊗ F(norm aᵀx), with Y orthogonal, or nearly: JPmHC (Sengupta et al. 2026).

Y is a Cayley transform of the skew part W of a generated matrix. The paper computes it by the
iteration Y ← I + (α/2) W (I + Y) from Y = I + αW, twice: this is orthogonal up to the fourth power
of (α/2) W, so it is accurate for small generators. For four streams a closed form of the limit is
exact at any size. a is the column mean of a row-wise softmax and b the row sums of a column-wise
one, so Σ aᵢ = 1 and Σ bᵢ = n. With all generators at zero, a = 1/n, b = 1 and Y = I.

Streams that start as copies, leave as their mean, and are read and written alike stay copies, and
no generator ever gets a gradient. So the streams start as learned rescalings of x whose mean is x,
and leave through learned weights. Step 0 is then the plain network too. The norm's weight and bias
get their first gradient at step 1, because the generators that read them are zero at step 0.

The mix may also be exactly or nearly doubly stochastic, as in mHC. Then it shrinks differences
between streams, which a rotation keeps, and it keeps their mean, which a rotation moves.

The paper's figure has a LayerNorm after each merge: that is norm_at="post" of the backbone.

Legend: B batch, T positions, D width, n streams.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from geolab.checks import require_option
from geolab.operators import jpmhc_join, skew, widened
from geolab.operators.generate import Maps
from geolab.operators.jpmhc import Turn, shares
from geolab.operators.streams import Unwritten
from geolab.residuals.base import Normed
from geolab.residuals.mixing import mixes
from geolab.residuals.streams import StreamCoefficients, Streams
from geolab.residuals.weights import LayerNorm, Linear, Weight, own, put, zero


class JPmHC(Streams):
    """JPmHC at streams of full width.

    Arguments:
        width: D.
        streams: n, at least 2; the paper takes 4.
        mix: "cayley" (the paper), or a doubly stochastic matrix of the token's logits by a name of
            `mixing.mixes`, which starts near the identity. It is then no JPmHC, but mHC's H between
            JPmHC's a and b.
        retraction: "iterated" (the paper) or "exact" (the iteration's limit; four streams only).
        steps: how often to iterate; the paper takes 2.
        alpha: α, 0.1 in the paper. For "exact", Y is (I − (α/2) W)⁻¹ (I + (α/2) W).
        temperature: τ of both softmaxes.
        ends: "scaled" enters by x ⊙ eᵢ and leaves by Σ rᵢ ⊙ xᵢ, both learned; "copied" enters by
            copies and leaves by their mean. The paper allows copying or a projection at the entry
            and a mean or a projection at the exit. A full projection would have n D² numbers at
            each end, while n D numbers are enough to tell the streams apart. With "split" the trunk
            is n D wide, as in E-MHC-Geo's code: its features are the streams, at the entry and at
            the exit.
        norm: the norm of the generator's input, "layer" (with weight and bias) or "rms" (with
            neither; in E-MHC-Geo's mixer for ARC). The latter, PyTorch's, gives 0 where float32
            can't hold a square, above about 1e19.
        write_scale: whether the writes have the learned factor s. E-MHC-Geo's code has none.
    Raises: ValueError for an unknown option, for "exact" with another number of streams than 4,
        for steps below 1, or for an alpha or a temperature that isn't positive.
    """

    spectrum = "near the unit circle; on it when exact; in the unit disc by another mix"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, streams: int = 4,
                 mix: str = "cayley", retraction: str = "iterated", steps: int = 2,
                 alpha: float = 0.1, temperature: float = 1.0, ends: str = "scaled",
                 norm: str = "layer", write_scale: bool = True):
        super().__init__(width, index, count, streams=streams, fewest=2)
        ways = mixes()
        require_option("mix", mix, ("cayley", *ways))
        require_option("retraction", retraction, ("iterated", "exact"))
        require_option("ends", ends, ("scaled", "copied", "split"))
        require_option("norm", norm, ("layer", "rms"))
        require_option("write_scale", write_scale, (True, False))
        if retraction == "exact" and streams != 4:
            raise ValueError("retraction='exact' is a closed form for 4 streams, got streams = "
                             f"{streams}; 'iterated' takes any number")
        self.ends = ends
        self.turn = Turn(steps, alpha, temperature, exact=retraction == "exact")
        self.norm = LayerNorm(streams * width) if norm == "layer" else nn.RMSNorm(
            streams * width, eps=1e-5, elementwise_affine=False)
        self.mix = ways.get(mix)
        of_mix = self.mix.count(streams) if self.mix else streams**2
        self.generate = Linear(streams * width, 2 * streams**2 + of_mix)
        self._start_generator(zero)
        self.scale = nn.Parameter(torch.empty(1)) if write_scale else 1.0
        if ends == "scaled" and self.first:
            self.entry = Weight(streams, width, how=_rescalings)
        if ends == "scaled" and self.last:
            self.exit = Weight(streams, width, how=partial(nn.init.constant_, val=1 / streams))
        # a subclass may take another step
        self._joins = write_scale and (mix, norm) == ("cayley", "layer") and all(
            getattr(type(self), name) is getattr(JPmHC, name)
            for name in ("forward", "coefficients", "step"))
        self.start_own()

    def _start_generator(self, how: Callable[..., object], **options: float) -> None:
        self.generate.start(how, **options)
        if self.mix:
            self.generate.start(_near, start=partial(self.mix.start, self.streams, 8.0))

    @property
    def joins(self) -> bool:
        return self._joins and own(self.generate, self.norm)

    @classmethod
    def idle(cls, options: Mapping[str, Any]) -> dict[str, str]:
        if options["mix"] != "cayley":
            return dict.fromkeys(("retraction", "steps", "alpha"), f"mix={options['mix']!r}")
        return {"steps": "retraction='exact'"} if options["retraction"] == "exact" else {}

    def start_own(self) -> None:
        if isinstance(self.scale, Tensor):
            nn.init.ones_(self.scale)

    def expand(self, x: Tensor) -> Tensor:
        if self.ends == "scaled":
            return x.unsqueeze(-2) * self.entry().to(x.dtype)
        return super().expand(x)

    def step(self, state: Tensor | Unwritten, sublayer: Normed) -> Unwritten:
        """Do the step of `forward` without its last write, from a state that is written or not."""
        weight, bias = self.generate()
        z, u, given = jpmhc_join(state, Maps(weight, self.scale, bias), self.norm(), self.turn,
                                 sublayer.norm)
        return Unwritten(z, sublayer.f(u), given)

    def coefficients(self, state: Tensor) -> StreamCoefficients:
        logits = widened(self.generate(self.norm(state.flatten(-2))))
        n = self.streams
        read, write, mix = logits.tensor_split((n * n, 2 * n * n), dim=-1)
        read, write = read.unflatten(-1, (n, n)), write.unflatten(-1, (n, n))
        return StreamCoefficients(*shares(read, write, self.scale, self.turn.temperature),
                                  self.mix.matrix(mix, n) if self.mix
                                  else self.turn.matrix(skew(mix.unflatten(-1, (n, n)))))

    def reduce(self, state: Tensor) -> Tensor:
        if self.ends == "scaled":
            return (state * self.exit().to(state.dtype)).sum(-2)
        return super().reduce(state)


@torch.no_grad()
def _near(layer: nn.Linear, start: Callable[[], Tensor]) -> None:
    """Let the last biases be a mix's logits near the identity."""
    logits = start()
    layer.bias[-len(logits):] = logits.to(layer.bias)


def _rescalings(entry: Tensor) -> None:
    """Numbers around 1, whose mean over the streams is 1."""
    apart = torch.randn_like(entry)
    put(entry, 1 + apart - apart.mean(0))
