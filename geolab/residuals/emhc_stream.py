"""Z = G X, then X ← Z + b ⊗ F(norm aᵀZ): E-MHC-Geo's operators on n streams of full width.

`Stream` (E-MHC-Geo-Stream) has G = γ Q + (1 − γ) H on the streams. Its reflection H mirrors the n
streams in the same way for every feature. On the state's n D numbers that is H ⊗ I, of determinant
(−1)^D, which is 1 for an even D. `Mixer`, the mixer for ARC, has the reflection I − 2 k kᵀ with a k
of n D numbers, of determinant −1 on the state itself: G X = γ (Q ⊗ I) X + (1 − γ) (I − 2 k kᵀ) X.
For this its generator needs n D outputs. The smallest singular value of both blends is |2γ − 1|.

The router's logits are two n × n matrices per token. a is the column mean of the row-wise softmax
of one, b the row sums of the column-wise softmax of the other, so Σ aᵢ = 1 and Σ bᵢ = n.

Legend: B batch, T positions, D width, n streams; u, v, β, k, γ are the generator's numbers for a
token.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.checks import require_count, require_number, require_option
from geolab.operators import blend, cayley_rank2, delta_shortcut, householder_matrix, widened
from geolab.operators.streams import stream_mix, stream_mix_write, stream_read
from geolab.residuals.base import Sublayer
from geolab.residuals.emhc import OperatorCoefficients
from geolab.residuals.gating import (
    gated,
    idle_start,
    penalise,
    plane_direction_gate,
    start_generator,
)
from geolab.residuals.pooling import Generator
from geolab.residuals.streams import Streams
from geolab.residuals.weights import small_linear


class _Routed(Streams):
    """An operator on n streams of full width, which a router reads and writes.

    Arguments:
        width: D, of the sublayer and of each stream.
        whole: whether k has n D numbers, and mirrors the whole state, or n.
        pool: as in `Hybrid`.
        normalise: whether the generator layer-norms its input.
        streams: n, at least 2.
        hidden: features inside the generator.
        start: as in `Cayley`. The published code first sets the generator's last layer to zero,
            where k has no direction, and then overwrites all of it, including the gate's bias. So
            "published" starts at γ = ½, and gate_bias and beta_init must be left out.
        penalty: as in `Hybrid`; the published trainer never adds it here.
        ends: "copied" (the trunk has D features, the streams start as copies and leave as their
            mean) or "split" (the published trunk has n D, and these are the streams).
        router_reads: "state" (X) or "mixed" (the published G X).
        beta_init, gate_bias: as in `Hybrid`.
    """

    spectrum = "singular values from |2γ − 1| to 1"

    def __init__(self, width: int, index: int, count: int, *, whole: bool, pool: str,
                 normalise: bool, streams: int = 4, hidden: int = 48, start: str = "plane",
                 beta_init: float = 0.1, gate_bias: float = 3.0, penalty: float = 0.0,
                 ends: str = "copied", router_reads: str = "state"):
        super().__init__(width, index, count, streams=streams, fewest=2)
        require_count("hidden", hidden)
        require_number("penalty", penalty, 0)
        require_number("gate_bias", gate_bias)
        require_option("ends", ends, ("copied", "split"))
        require_option("router_reads", router_reads, ("state", "mixed"))
        self.ends, self.router_reads, self.penalty = ends, router_reads, penalty
        size = width * streams
        reflected = size if whole else streams
        self.generator = Generator(size, hidden, 2 * streams + reflected + 2, pool, normalise)
        if start != "published":
            start_generator(self.generator, streams, start, beta_init, gate_bias, reflected)
        self.router = small_linear(size, 2 * streams**2)

    @classmethod
    def idle(cls, options: Mapping[str, Any]) -> dict[str, str]:
        return idle_start(options, "beta_init", "gate_bias")


class Stream(_Routed):
    """The hybrid operator on n streams of full width.

    Generator and router read X flattened and layer-normed.

    Arguments: those of `_Routed` except whole and normalise, and
        gate: as in `Hybrid`.
    """

    def __init__(self, width: int, index: int = 0, count: int = 1, *, pool: str = "causal",
                 gate: str = "soft", **options):
        super().__init__(width, index, count, whole=False, pool=pool, normalise=True, **options)
        require_option("gate", gate, ("soft", "hard"))
        self.gate, self.leaks = gate, pool == "sequence"

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        mix, _, _, gate, read, write = self.coefficients(state)
        penalise(gate, self.penalty)
        each = mix.expand(*read.shape[:-1], *mix.shape[-2:])  # one for all positions if pooled
        heard = stream_read(state, stream_read(each, read))   # aᵀ(G X) = (aᵀG) X
        return stream_mix_write(state, mix, write, sublayer(heard))

    def coefficients(self, state: Tensor) -> OperatorCoefficients:
        flat = state.flatten(-2)
        *plane, direction, gate = plane_direction_gate(self.generator(flat), self.streams)
        rotation = cayley_rank2(*plane)
        mix = gated(rotation, direction, gate, self.gate)
        if self.router_reads == "mixed":
            flat = stream_mix(state, mix).flatten(-2)
        read_write = routes(self.router(F.layer_norm(flat, flat.shape[-1:])), self.streams)
        return OperatorCoefficients(mix, rotation, direction, gate, *read_write)


class MixerCoefficients(NamedTuple):
    """The coefficients that `Mixer` computes from a state."""

    rotation: Tensor    # Q: (B, T, n, n)
    direction: Tensor   # k: (B, T, n D), unit vectors
    gate: Tensor        # γ: (B, T), in (0, 1)
    read: Tensor        # a: (B, T, n)
    write: Tensor       # b: (B, T, n)

    @property
    def shortcut(self) -> Tensor:
        """γ (Q ⊗ I) + (1 − γ) (I − 2 k kᵀ), (B, T, n D, n D); the step itself never forms it."""
        features = self.direction.shape[-1] // self.rotation.shape[-1]
        turned = torch.kron(self.rotation, torch.eye(features).to(self.rotation))
        return blend(turned, householder_matrix(self.direction), self.gate)


class Mixer(_Routed):
    """The blend of a rotation of the streams and a reflection of the whole state.

    Generator and router read the token's own streams, flattened and normed.

    Arguments: those of `_Routed` except whole, pool and normalise, and
        norm: "rms" or "layer", without weights. The published code has either in one of its copies.
        norm_eps: its guard; None is PyTorch's own. Published 1e-5. PyTorch's norm gives 0 where
            float32 can't hold a square, above about 1e19.
    """

    def __init__(self, width: int, index: int = 0, count: int = 1, *, norm: str = "rms",
                 norm_eps: float | None = None, **options):
        super().__init__(width, index, count, whole=True, pool="token", normalise=False, **options)
        require_option("norm", norm, ("rms", "layer"))
        if norm_eps is not None:
            require_number("norm_eps", norm_eps, 0, strict=True)
        self.norm, self.norm_eps = norm, norm_eps

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        rotation, direction, gate, read, write = self.coefficients(state)
        penalise(gate, self.penalty)
        z = blended(state, rotation, direction, gate)
        update = sublayer(stream_read(z, read))
        return z + write.to(z.dtype).unsqueeze(-1) * update.unsqueeze(-2)

    def coefficients(self, state: Tensor) -> MixerCoefficients:
        normed = self._normed(state)
        *plane, direction, gate = plane_direction_gate(self.generator(normed), self.streams)
        operator = cayley_rank2(*plane), direction, gate
        if self.router_reads == "mixed":
            normed = self._normed(blended(state, *operator))
        return MixerCoefficients(*operator, *routes(self.router(normed), self.streams))

    def _normed(self, state: Tensor) -> Tensor:
        flat = state.flatten(-2)
        if self.norm == "layer":
            return F.layer_norm(flat, flat.shape[-1:], eps=self.norm_eps or 1e-5)
        return F.rms_norm(flat, flat.shape[-1:], eps=self.norm_eps)


def blended(state: Tensor, rotation: Tensor, direction: Tensor, gate: Tensor) -> Tensor:
    """γ (Q ⊗ I) X + (1 − γ) (I − 2 k kᵀ) X, (B, T, n, D), with k for all of X."""
    turned = stream_mix(state, rotation)
    reflected = delta_shortcut(state.flatten(-2), direction, 2.0).view_as(state)
    return torch.lerp(reflected, turned, gate.to(state.dtype)[..., None, None])


def routes(logits: Tensor, streams: int) -> tuple[Tensor, Tensor]:
    """a and b, both (B, T, n), from a router's 2n² numbers."""
    read, write = widened(logits).unflatten(-1, (2, streams, streams)).unbind(-3)
    return read.softmax(-1).mean(-2), write.softmax(-2).sum(-1)
