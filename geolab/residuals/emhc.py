"""Z = G X, then X ← Z + P_post F(P_pre norm Z): an operator on n streams of the state, before each sublayer (E-MHC-Geo).

The operator acts on the shortcut and the sublayer reads what it made of it. `Cayley` (G = Q, one plane turned), `Hybrid`
(G = γ Q + (1 − γ) H) and `Stream` (the same, on full-width streams) are published; `Geodesic` (G = Q H^{1−γ}) and
`Exact` (every rotation of four streams) are this book's. As published the generators read the mean of the whole
sequence, the gate starts where G is singular, and the maps P start as noise; here each is an option, not the default.

Legend: B batch, T positions, D width, n streams, d features a stream; u, v, β, k, γ: what the generator gives for a token.
With pool="sequence" one operator serves all positions, and T is 1 in what `coefficients` returns.
"""

import math
from abc import abstractmethod
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_count, require_number, require_option
from geolab.operators import (cayley_rank2, cayley_skew4, gated_matrix, gated_mix, geodesic, midpoint_penalty, skew, stream_mix,
                              stream_mix_write, stream_read, unit_direction, widened)
from geolab.penalties import add_penalty
from geolab.residuals.base import Residual, Sublayer
from geolab.residuals.pooling import Generator, pool, small_linear
from geolab.residuals.streams import Streams

STARTS = ("plane", "published")


class Coefficients(NamedTuple):
    """What a residual of this family computes from a state. What it doesn't have is None."""

    mix: Tensor                       # G: (B, T, n, n); Geodesic (B, T, 2n, 2n). Probes take its spectrum
    rotation: Tensor | None = None    # Q: (B, T, n, n)
    direction: Tensor | None = None   # k: (B, T, n), unit vectors
    gate: Tensor | None = None        # γ: (B, T), in (0, 1)
    read: Tensor | None = None        # how a sublayer reads the streams, (B, T, n)
    write: Tensor | None = None       # and writes them, (B, T, n)


class _Series(Residual):
    """Z = (G ⊗ I) X on the state (B, T, D) seen as streams, then Z + P_post F(P_pre norm Z). A subclass gives G.

    P_pre is `before`, P_post `after`: it is the sublayer that applies them.

    Arguments:
        width: D; divisible by streams.
        vectors, scalars: how many vectors of n numbers, and how many numbers besides, the operator is made of.
        streams: n.
        pool: what position t generates from: "causal" (mean so far), "token", or "sequence" (published; leaks).
        hidden_ratio: D over the generator's hidden features. 1 has as many as the published nets of u, v, β and k, which
            take 4 each.
        maps: the D × D maps P around the sublayer: "identity" at the start (the paper's intent), "published" (the code
            overwrites that with N(0, 0.02²): gain 0.2 each), or "none": linear maps of F stand on both sides already.
    """

    def __init__(self, width: int, index: int = 0, count: int = 1, *, vectors: int, scalars: int, streams: int = 4,
                 pool: str = "causal", hidden_ratio: float = 4, maps: str = "identity", normalise: bool = False):
        super().__init__(width, index, count)
        require_option("maps", maps, ("identity", "published", "none"))
        _require_streams(width, streams)
        self.streams, self.leaks = streams, pool == "sequence"
        self.generator = Generator(width, _hidden(width, hidden_ratio), vectors * streams + scalars, pool, normalise)
        self.before, self.after = (None if maps == "none" else _square(width, maps) for _ in range(2))

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        z = self.shortcut(state)
        return z + sublayer(z)

    def shortcut(self, state: Tensor) -> Tensor:
        """Z of a state (B, T, D). Where an operator makes G and applies it at once, a subclass has that one instead."""
        mix = self.coefficients(state).mix
        return stream_mix(state.unflatten(-1, (mix.shape[-1], -1)), mix).flatten(-2)

    @abstractmethod
    def coefficients(self, state: Tensor) -> Coefficients:
        """The operator at a state (B, T, D), and what it is made of."""


class Cayley(_Series):
    """G = Q, the Cayley transform of β/2 (u vᵀ − v uᵀ): one plane of the stream space, turned by less than π (eq. 3).

    u and v enter as a product: where both vanish, so does every gradient. As published both start near zero.

    Arguments: those of `_Series`, and
        start: "plane": biases put u and v on an orthonormal pair, a small angle away from the identity; or "published":
            zero biases, so that the angle and its gradients nearly vanish.
        beta_init: β where the generator's weights say nothing, for start="plane"; the angle is 2 atan(β/2).
    """

    spectrum = "1, and exp(± iθ) on one plane"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, streams: int = 4, start: str = "plane",
                 beta_init: float = 0.1, **options):
        super().__init__(width, index, count, vectors=2, scalars=1, streams=streams, **options)
        start_generator(self.generator, streams, start, beta_init)

    def shortcut(self, state: Tensor) -> Tensor:
        return gated_mix(state.unflatten(-1, (self.streams, -1)), *self.plane(state)).flatten(-2)

    def coefficients(self, state: Tensor) -> Coefficients:
        return Coefficients(cayley_rank2(*self.plane(state)))

    def plane(self, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """u, v and β at a state."""
        u, v, beta = self.generator(state).split([self.streams, self.streams, 1], dim=-1)
        return u, v, F.softplus(beta.squeeze(-1))


class Hybrid(_Series):
    """G = γ Q + (1 − γ) H, a gate between the rotation Q and the reflection H = I − 2 k kᵀ (eq. 5).

    Soft, G is orthogonal at γ = 0 and 1 only: its smallest singular value is |2γ − 1|. Hard, G is Q or H, whichever γ
    prefers, and the gradient is the soft one's, so that γ and the operator that was not taken learn too.

    Arguments: those of `Cayley`, and
        gate: "soft" (published) or "hard".
        gate_bias: γ starts at σ(gate_bias). Published 0: each G starts exactly singular. At 3, G is near Q.
        gate_head: "generator", γ's logit is the generator's last output, behind its GELU; or "linear" (published): it is
            wᵀx̄ + b of the pooled state x̄, with w = 0 at the start.
        penalty: weight of the mean of 4γ(1 − γ) in the loss, one term a sublayer. None is the published 0.1 for a soft
            gate, and 0 for a hard one, which is orthogonal without. Its size means something only beside the task's loss.
    """

    spectrum = "singular values from |2γ − 1| to 1"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, streams: int = 4, start: str = "plane",
                 beta_init: float = 0.1, gate: str = "soft", gate_bias: float = 3.0, gate_head: str = "generator",
                 penalty: float | None = None, **options):
        super().__init__(width, index, count, vectors=3, scalars=2 if gate_head == "generator" else 1, streams=streams, **options)
        require_option("gate", gate, ("soft", "hard"))
        require_option("gate_head", gate_head, ("generator", "linear"))
        start_generator(self.generator, streams, start, beta_init, gate_bias)
        self.gate_head = _gate_head(width, gate_bias) if gate_head == "linear" else None
        self.gate = gate
        self.penalty = penalty if penalty is not None else 0.1 if gate == "soft" else 0.0
        require_number("penalty", self.penalty, 0)

    def extra_repr(self) -> str:
        return f"gate={self.gate!r}, penalty={self.penalty}"

    def shortcut(self, state: Tensor) -> Tensor:
        *plane, direction, gate = self._numbers(state)
        if self.penalty:
            add_penalty(self.penalty * midpoint_penalty(gate).mean())
        streams = state.unflatten(-1, (self.streams, -1))
        if self.gate == "soft":
            return gated_mix(streams, *plane, direction, gate).flatten(-2)
        return stream_mix(streams, _gated(cayley_rank2(*plane), direction, gate, self.gate)).flatten(-2)

    def coefficients(self, state: Tensor) -> Coefficients:
        *plane, direction, gate = self._numbers(state)
        rotation = cayley_rank2(*plane)
        return Coefficients(_gated(rotation, direction, gate, self.gate), rotation, direction, gate)

    def _numbers(self, state: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """u, v, β, k and γ at a state."""
        numbers = self.generator(state)
        if self.gate_head is not None:  # a mean commutes with a linear map
            numbers = torch.cat([numbers, pool(self.gate_head(state), self.generator[0].pool)], dim=-1)
        return plane_direction_gate(numbers, self.streams)


class Geodesic(_Series):
    """G = Q H^{1−γ}: Q at γ = 1, Q H at γ = 0, orthogonal at every γ between. In no paper: the book's own.

    Why a gate must fail among n × n matrices: Q has determinant 1 and Q H has −1, so on any continuous path between them
    the determinant crosses 0. Why it need not fail here: the state is n × d numbers, on which the reflection is H ⊗ I_d,
    of determinant (−1)^d, 1 for an even d. There both ends are rotations, and a path of rotations joins them. Read the
    halves of a stream as real and imaginary parts. Then H has fractional powers, H^s = I + (e^{iπs} − 1) k kᵀ, unitary
    for every s: the geodesic from I to H. It turns the k-component between the halves by the angle πs.

    Continuous: G, with ‖dG/dγ‖ = π at every γ, so no gate value is a trap. Orthogonal: G, for every gate, so no penalty
    is needed. The price: between the ends G mixes the halves of a stream, so it isn't one n × n matrix for all
    features. Which features pair up, and which way they turn, is fixed beforehand. H alone takes β → 0.

    Arguments: those of `Hybrid` without gate and penalty; width must be divisible by 2 · streams.
    """

    spectrum = "on the unit circle"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, streams: int = 4, start: str = "plane",
                 beta_init: float = 0.1, gate_bias: float = 3.0, **options):
        super().__init__(width, index, count, vectors=3, scalars=2, streams=streams, **options)
        _require_streams(width, 2 * streams, "2 · streams")
        start_generator(self.generator, streams, start, beta_init, gate_bias)

    def coefficients(self, state: Tensor) -> Coefficients:
        *plane, direction, gate = plane_direction_gate(self.generator(state), self.streams)
        rotation = cayley_rank2(*plane)
        return Coefficients(geodesic(rotation, direction, gate), rotation, direction, gate)


class Exact(_Series):
    """G = (I + W)⁻¹(I − W) with any skew 4 × 4 matrix W: every rotation of four streams but those with eigenvalue −1.

    Six numbers a token, as many as SO(4) has dimensions, by one closed form. A product of two rank-2 factors has 18
    numbers for the same six, and a dead saddle in each factor. W enters linearly: at W = 0 G is the identity and every
    gradient is alive. The price: four streams only, and no reflection.

    Arguments: those of `_Series` without streams; pool is "token" unless told, and the generator layer-norms what it reads.
    """

    spectrum = "on the unit circle, −1 left out"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, pool: str = "token", hidden_ratio: float = 4,
                 maps: str = "identity"):
        super().__init__(width, index, count, vectors=0, scalars=6, pool=pool, hidden_ratio=hidden_ratio, maps=maps, normalise=True)

    def coefficients(self, state: Tensor) -> Coefficients:
        numbers = self.generator(state)
        row, column = torch.triu_indices(4, 4, offset=1, device=state.device)
        w = numbers.new_zeros(*numbers.shape[:-1], 4, 4)
        w[..., row, column] = numbers
        return Coefficients(cayley_skew4(skew(w)))


class Stream(Streams):
    """The hybrid operator on n streams of full width, read and written through a router (E-MHC-Geo-Stream).

    Z = G X mixes the streams of the state (B, T, n, D), the sublayer reads z = Σ aᵢ Zᵢ, and stream i gets bᵢ F(norm z).
    The router's logits are two n × n matrices a token. a is the column mean of the row-wise softmax of one, b the row sums
    of the column-wise softmax of the other, so Σ aᵢ = 1 and Σ bᵢ = n. Generator and router read X flattened and layer-normed.

    Arguments:
        width: D, of the sublayer and of each stream.
        hidden: features inside the generator.
        start: as in `Cayley`. The published code meant the generator's last layer to start at zero, where k has no direction,
            then overwrote all of it, gate bias included: "published" starts at γ = ½ whatever gate_bias says.
        penalty: as in `Hybrid`; the published trainer never adds it here.
        streams, pool, gate, gate_bias, beta_init: as in `Hybrid`.
    """

    spectrum = "singular values from |2γ − 1| to 1"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, streams: int = 4, pool: str = "causal",
                 hidden: int = 48, start: str = "plane", beta_init: float = 0.1, gate: str = "soft",
                 gate_bias: float = 3.0, penalty: float = 0.0):
        super().__init__(width, index, count, streams=streams, fewest=2)
        require_count("hidden", hidden)
        require_number("penalty", penalty, 0)
        require_option("gate", gate, ("soft", "hard"))
        self.gate, self.penalty, self.leaks = gate, penalty, pool == "sequence"
        self.generator = Generator(width * streams, hidden, 3 * streams + 2, pool, normalise=True)
        if start != "published":
            start_generator(self.generator, streams, start, beta_init, gate_bias)
        self.router = small_linear(width * streams, 2 * streams**2)

    def extra_repr(self) -> str:
        return f"streams={self.streams}, gate={self.gate!r}, penalty={self.penalty}"

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        coefficients = self.coefficients(state)
        if self.penalty:
            add_penalty(self.penalty * midpoint_penalty(coefficients.gate).mean())
        weights = stream_read(coefficients.mix, coefficients.read)  # aᵀ(G X) = (aᵀG) X
        return stream_mix_write(state, coefficients.mix, coefficients.write, sublayer(stream_read(state, weights)))

    def coefficients(self, state: Tensor) -> Coefficients:
        flat = state.flatten(-2)
        *plane, direction, gate = plane_direction_gate(self.generator(flat), self.streams)
        rotation = cayley_rank2(*plane)
        read_write = routes(self.router(F.layer_norm(flat, flat.shape[-1:])), self.streams)
        return Coefficients(_gated(rotation, direction, gate, self.gate), rotation, direction, gate, *read_write)


def routes(logits: Tensor, streams: int) -> tuple[Tensor, Tensor]:
    """a and b, (B, T, n) both, out of a router's 2n² numbers."""
    read, write = widened(logits).unflatten(-1, (2, streams, streams)).unbind(-3)
    return read.softmax(-1).mean(-2), write.softmax(-2).sum(-1)


def plane_direction_gate(numbers: Tensor, streams: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """u, v, β, k and γ out of a generator's numbers: 3n + 2, or more where k has more than n."""
    u, v, beta, k, gate = numbers.split([streams, streams, 1, numbers.shape[-1] - 2 * streams - 2, 1], dim=-1)
    return u, v, F.softplus(beta.squeeze(-1)), unit_direction(k, eps=1e-12), gate.squeeze(-1).sigmoid()


def _gated(rotation: Tensor, direction: Tensor, gate: Tensor, how: str) -> Tensor:
    """γ Q + (1 − γ) H, or the one that γ prefers with the gradient of that."""
    soft = gated_matrix(rotation, direction, gate)
    if how == "soft":
        return soft
    with torch.no_grad():
        hard = gated_matrix(rotation, direction, (gate > 0.5).to(gate.dtype))
    return hard + (soft - soft.detach())


@torch.no_grad()
def start_generator(generator: Generator, streams: int, start: str, beta_init: float, gate_bias: float | None = None,
                    reflected: int | None = None) -> None:
    """Set the last layer's biases: u, v, β and, with a gate, k and γ. The gate's weights are zero, so γ = σ(gate_bias).
    Where γ has a head of its own, k is the last. k has n numbers unless told."""
    require_option("start", start, STARTS)
    require_number("beta_init", beta_init, 0, strict=True)
    if gate_bias is not None:
        require_number("gate_bias", gate_bias)
    reflected, bias = reflected or streams, generator[-1].bias
    if start == "plane":
        bias[:2 * streams] = nn.init.orthogonal_(torch.empty(2, streams)).flatten()
        bias[2 * streams] = math.log(math.expm1(beta_init))
        if gate_bias is not None:
            bias[2 * streams + 1:2 * streams + 1 + reflected] = unit_direction(torch.randn(reflected))
    if len(bias) == 2 * streams + 2 + reflected:
        generator[-1].weight[-1], bias[-1] = 0.0, gate_bias


def _gate_head(width: int, bias: float) -> nn.Linear:
    head = nn.Linear(width, 1)
    nn.init.zeros_(head.weight)
    nn.init.constant_(head.bias, bias)
    return head


def _square(width: int, maps: str) -> nn.Parameter:
    weight = nn.Linear(width, width, bias=False).weight
    return nn.init.eye_(weight) if maps == "identity" else nn.init.normal_(weight, std=0.02)


def _hidden(width: int, ratio: float) -> int:
    if not 0 < ratio <= width:
        raise ValueError(f"hidden_ratio must lie between 0 and width = {width}, got {ratio}")
    return int(width / ratio)


def _require_streams(width: int, streams: int, name: str = "streams") -> None:
    require_count(name, streams)
    if streams < 2 or width % streams:
        raise ValueError(f"width must be divisible by {name}, at least 2 of them, got width {width} and {name} {streams}")
