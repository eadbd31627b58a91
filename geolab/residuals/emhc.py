"""Z = G X, then X ← Z + P_post F(P_pre norm Z): an operator on n streams of the state (E-MHC-Geo).

The operator G acts on the shortcut before each sublayer, and the sublayer reads the result Z. The
published operators are `Cayley` (G = Q, a rotation of one plane) and `Hybrid` (G = γ Q + (1 − γ) H,
a gate between Q and a reflection H); `Geodesic` (G = Q H^{1−γ}) and `Exact` (every rotation of four
streams, except those with eigenvalue −1) are this book's own. As published, the generators read the
mean of the whole sequence, the gate starts where G is singular, and the maps P start as noise. Here
each of these is an option, not the default. `emhc_stream` has the forms with streams of full width.

A plain function as a sublayer doesn't show its norm, and the step is then Z + P_post F(P_pre Z).
See `geolab.residuals.base.between`.

Legend: B batch, T positions, D width, n streams, d = D/n features per stream; u, v, β, k, γ are the
generator's numbers for a token. With pool="sequence" one operator serves all positions, and T is 1
in what `coefficients` returns.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_count, require_number, require_option
from geolab.operators.cayley import cayley_rank2, cayley_skew4, skew
from geolab.operators.gate import gated_mix, geodesic
from geolab.operators.streams import stream_mix
from geolab.residuals.base import Residual, Sublayer, between
from geolab.residuals.gating import (
    gated,
    idle_start,
    penalise,
    plane_direction_gate,
    start_generator,
)
from geolab.residuals.pooling import Generator, pool
from geolab.residuals.weights import Linear, as_linear, normal_matrix, zero


class OperatorCoefficients(NamedTuple):
    """The coefficients that a residual of this family computes from a state; those that it lacks
    are None.
    """

    mix: Tensor                       # G: (B, T, n, n), or (B, T, 2n, 2n) for `Geodesic`
    rotation: Tensor | None = None    # Q: (B, T, n, n)
    direction: Tensor | None = None   # k: (B, T, n), unit vectors
    gate: Tensor | None = None        # γ: (B, T), in (0, 1)
    read: Tensor | None = None        # how a sublayer reads the streams, (B, T, n)
    write: Tensor | None = None       # how it writes them, (B, T, n)


class _Series(Residual):
    """Z = (G ⊗ I) X on the state (B, T, D) seen as streams, then Z + P_post F(P_pre norm Z).

    A subclass gives G.

    Arguments:
        width: D, divisible by streams.
        sizes: how many numbers each part of the operator has, in the generator's order.
        streams: n.
        pool: what position t generates from: "causal" (the mean up to t), "token" (itself), or
            "sequence" (the mean of all positions, published; it reads the future).
        hidden_ratio: D divided by the hidden features of a net. Published 4, for each net.
        nets: "one" for all parts, or "separate" (published), one for each. At hidden_ratio 1 the
            one net contains the published four nets.
        maps: the D × D maps P around F: "identity" at the start (the paper's intent), "published"
            (the code overwrites that with N(0, 0.02²), of gain 0.2 each), or "none": F begins and
            ends with linear maps already.
        normalise: whether the generator layer-norms its input.
    Attributes:
        before, after: P_pre and P_post, (D, D), or None for maps="none".
    """

    decayed = ("before", "after")

    def __init__(self, width: int, index: int = 0, count: int = 1, *, sizes: Sequence[int],
                 streams: int = 4, pool: str = "causal", hidden_ratio: float = 4,
                 nets: str = "one", maps: str = "identity", normalise: bool = False):
        super().__init__(width, index, count)
        require_option("nets", nets, ("one", "separate"))
        require_option("maps", maps, ("identity", "published", "none"))
        require_option("normalise", normalise, (True, False))
        require_number("hidden_ratio", hidden_ratio)
        _require_streams(width, streams)
        if not 0 < hidden_ratio <= width:
            raise ValueError(f"hidden_ratio must lie between 0 and width = {width}, "
                             f"got {hidden_ratio}")
        self.streams, self.leaks = streams, pool == "sequence"
        self.generator = Generator(width, int(width / hidden_ratio),
                                   sum(sizes) if nets == "one" else sizes, pool, normalise)
        self.maps = maps
        self.before, self.after = (None if maps == "none" else nn.Parameter(
            torch.empty(width, width)) for _ in range(2))
        self.start_own()

    @classmethod
    def idle(cls, options: Mapping[str, Any]) -> dict[str, str]:
        return idle_start(options, "beta_init")

    def start_own(self) -> None:
        for weight in (self.before, self.after):
            if weight is not None:
                if self.maps == "identity":
                    as_linear(weight)  # overwritten, but the seeds of stored runs count these draws
                    nn.init.eye_(weight)
                else:
                    normal_matrix(weight, std=0.02)

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        z = self.shortcut(state)
        if self.before is None or self.after is None:
            return z + sublayer(z)
        return z + between(sublayer, z, self.before.to(z.dtype), self.after.to(z.dtype))

    def shortcut(self, state: Tensor) -> Tensor:
        """Z of a state (B, T, D). A subclass may override it, to make G and apply it in one step.
        """
        mix = self.coefficients(state).mix
        return stream_mix(state.unflatten(-1, (mix.shape[-1], -1)), mix).flatten(-2)

    @abstractmethod
    def coefficients(self, state: Tensor) -> OperatorCoefficients:
        """The operator at a state (B, T, D), and the numbers that it is made of."""


class Cayley(_Series):
    """G = Q, the Cayley transform of β/2 (u vᵀ − v uᵀ): a rotation of one plane (eq. 3).

    The plane lies in the stream space, and its angle is less than π. u and v enter as a product:
    where both vanish, every gradient vanishes too. As published both start near zero.

    Arguments: those of `_Series` except sizes, and
        start: "plane" (biases put u and v on an orthonormal pair, at a small angle) or "published"
            (zero biases, so that the angle and its gradients nearly vanish).
        beta_init: β where the generator's weights give zero, for start="plane"; the angle is
            2 atan(β/2).
    """

    spectrum = "1, and exp(± iθ) on one plane"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, streams: int = 4,
                 start: str = "plane", beta_init: float = 0.1, **options):
        super().__init__(width, index, count, sizes=(streams, streams, 1), streams=streams,
                         **options)
        start_generator(self.generator, streams, start, beta_init)

    def shortcut(self, state: Tensor) -> Tensor:
        streams = state.unflatten(-1, (self.streams, -1))
        return gated_mix(streams, *self.plane(state)).flatten(-2)

    def coefficients(self, state: Tensor) -> OperatorCoefficients:
        return OperatorCoefficients(cayley_rank2(*self.plane(state)))

    def plane(self, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """u (B, T, n), v (B, T, n) and β (B, T) at a state (B, T, D)."""
        u, v, beta = self.generator(state).split([self.streams, self.streams, 1], dim=-1)
        return u, v, F.softplus(beta.squeeze(-1))


class Hybrid(_Series):
    """G = γ Q + (1 − γ) H, a gate between the rotation Q and the reflection H = I − 2 k kᵀ (eq. 5).

    A soft G is orthogonal at γ = 0 and 1 only: its smallest singular value is |2γ − 1|. A hard G is
    Q for γ > ½ and H otherwise. It has the soft form's gradient, so that γ and the other operator
    learn too.

    Arguments: those of `Cayley`, and
        gate: "soft" (published) or "hard".
        gate_bias: γ starts at σ(gate_bias). Published 0: each G starts exactly singular. At 3, G is
            near Q.
        gate_head: with "generator" the logit of γ is the generator's last output, behind its GELU.
            With "linear" (published) it is wᵀx̄ + b of the pooled state x̄, and w starts at 0.
        penalty: weight of the mean of 4γ(1 − γ) in the loss, one term per sublayer. None is the
            published 0.1 for a soft gate, and 0 for a hard one, which is orthogonal without it. Its
            size matters only relative to the task's loss.
    """

    spectrum = "singular values from |2γ − 1| to 1"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, streams: int = 4,
                 start: str = "plane", beta_init: float = 0.1, gate: str = "soft",
                 gate_bias: float = 3.0, gate_head: str = "generator",
                 penalty: float | None = None, **options):
        sizes = (streams, streams, 1, streams, 1)
        super().__init__(width, index, count, streams=streams,
                         sizes=sizes if gate_head == "generator" else sizes[:-1], **options)
        require_option("gate", gate, ("soft", "hard"))
        require_option("gate_head", gate_head, ("generator", "linear"))
        require_number("gate_bias", gate_bias)
        start_generator(self.generator, streams, start, beta_init, gate_bias)
        self.gate_head = None
        if gate_head == "linear":
            self.gate_head = Linear(width, 1).start(zero, bias=gate_bias)
        self.gate = gate
        self.penalty = (0.1 if gate == "soft" else 0.0) if penalty is None else penalty
        require_number("penalty", self.penalty, 0)

    def shortcut(self, state: Tensor) -> Tensor:
        u, v, beta, direction, gate = self._numbers(state)
        penalise(gate, self.penalty)
        streams = state.unflatten(-1, (self.streams, -1))
        if self.gate == "soft":
            return gated_mix(streams, u, v, beta, direction, gate).flatten(-2)
        mix = gated(cayley_rank2(u, v, beta), direction, gate, self.gate)
        return stream_mix(streams, mix).flatten(-2)

    def coefficients(self, state: Tensor) -> OperatorCoefficients:
        *plane, direction, gate = self._numbers(state)
        rotation = cayley_rank2(*plane)
        mix = gated(rotation, direction, gate, self.gate)
        return OperatorCoefficients(mix, rotation, direction, gate)

    def _numbers(self, state: Tensor) -> tuple[Tensor, ...]:
        """u, v, β, k and γ at a state."""
        numbers = self.generator(state)
        if self.gate_head is not None:  # a mean commutes with a linear map
            logit = pool(self.gate_head(state), self.generator[0].pool)
            numbers = torch.cat([numbers, logit], dim=-1)
        return plane_direction_gate(numbers, self.streams)


class Geodesic(_Series):
    """G = Q H^{1−γ}: Q at γ = 1, Q H at γ = 0, orthogonal at every γ between. The book's own form.

    Among n × n matrices a gate must pass a singular one: Q has determinant 1 and Q H has −1, so on
    any continuous path between them the determinant crosses 0. Here it need not, because the state
    is n × d numbers. On them the reflection is H ⊗ I_d, of determinant (−1)^d, which is 1 for an
    even d. So both ends are rotations, and a path of rotations joins them. Read the halves of a
    stream as real and imaginary parts. Then H has fractional powers, H^s = I + (e^{iπs} − 1) k kᵀ,
    unitary for every s: the geodesic from I to H. It turns the k-component between the halves by
    the angle πs.

    G is continuous, with ‖dG/dγ‖ = π at every γ, so training can't get stuck at a value of the
    gate. G is orthogonal for every gate, so no penalty is needed. This has a price. Between the
    ends G mixes the halves of a stream, so it isn't one n × n matrix for all features. The pairs of
    features and the direction of their turn are fixed in advance. And G is H alone only if β goes
    to 0.

    Arguments: those of `Hybrid`, except gate, gate_head and penalty. 2 · streams must divide width.
    """

    spectrum = "on the unit circle"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, streams: int = 4,
                 start: str = "plane", beta_init: float = 0.1, gate_bias: float = 3.0, **options):
        super().__init__(width, index, count, sizes=(streams, streams, 1, streams, 1),
                         streams=streams, **options)
        _require_streams(width, 2 * streams, "2 · streams")
        require_number("gate_bias", gate_bias)
        start_generator(self.generator, streams, start, beta_init, gate_bias)

    def coefficients(self, state: Tensor) -> OperatorCoefficients:
        *plane, direction, gate = plane_direction_gate(self.generator(state), self.streams)
        rotation = cayley_rank2(*plane)
        mix = geodesic(rotation, direction, gate)
        return OperatorCoefficients(mix, rotation, direction, gate)


class Exact(_Series):
    """G = (I + W)⁻¹(I − W) with any skew 4 × 4 matrix W: a rotation of four streams.

    Every rotation occurs except those with eigenvalue −1. G has six numbers per token, as many as
    SO(4) has dimensions, in one closed form. A product of two rank-2 factors has 18 numbers for the
    same six dimensions, and a saddle point in each factor. W enters linearly: at W = 0 G is the
    identity, and no gradient vanishes. The form is for four streams only, and has no reflection.

    Arguments: those of `_Series` without streams, sizes, nets and normalise; pool is "token"
    by default, and the generator layer-norms what it reads.
    """

    spectrum = "on the unit circle, −1 left out"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, pool: str = "token",
                 hidden_ratio: float = 4, maps: str = "identity"):
        super().__init__(width, index, count, sizes=(6,), pool=pool,
                         hidden_ratio=hidden_ratio, maps=maps, normalise=True)

    def coefficients(self, state: Tensor) -> OperatorCoefficients:
        numbers = self.generator(state)
        row, column = torch.triu_indices(4, 4, offset=1, device=state.device)
        w = numbers.new_zeros(*numbers.shape[:-1], 4, 4)
        w[..., row, column] = numbers
        return OperatorCoefficients(cayley_skew4(skew(w)))


def _require_streams(width: int, streams: int, name: str = "streams") -> None:
    require_count(name, streams)
    if streams < 2 or width % streams:
        raise ValueError(f"width must be divisible by {name}, at least 2 of them, got width "
                         f"{width} and {name} {streams}")
