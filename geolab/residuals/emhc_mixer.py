"""Z = γ (Q ⊗ I) X + (1 − γ) (I − 2 k kᵀ) X, then X ← Z + b ⊗ F(norm aᵀZ): E-MHC-Geo's mixer for ARC, which works token by token.

It is `Stream` with another reflection. There H turns n streams over, the same for every feature: on the state's n D numbers that is
H ⊗ I, of determinant (−1)^D, 1 for an even D. Here k has n D numbers, and H has determinant −1 on the state itself. The price is a
generator with n D outputs. The blend stays what it was: its smallest singular value is |2γ − 1|.

Legend: B batch, T positions, D width, n streams; u, v, β, k, γ: what the generator gives for a token.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.checks import require_count, require_number
from geolab.operators import blend, cayley_rank2, delta_shortcut, householder_matrix, midpoint_penalty, stream_mix, stream_read
from geolab.penalties import add_penalty
from geolab.residuals.base import Sublayer
from geolab.residuals.emhc import plane_direction_gate, routes, start_generator
from geolab.residuals.pooling import Generator, small_linear
from geolab.residuals.streams import Streams


class Coefficients(NamedTuple):
    """What `Mixer` computes from a state; the matrix that it is multiplied by, (n D)² numbers a token, only when asked for."""

    rotation: Tensor    # Q: (B, T, n, n)
    direction: Tensor   # k: (B, T, n D), unit vectors
    gate: Tensor        # γ: (B, T), in (0, 1)
    read: Tensor        # a: (B, T, n)
    write: Tensor       # b: (B, T, n)

    @property
    def shortcut(self) -> Tensor:
        """γ (Q ⊗ I) + (1 − γ) (I − 2 k kᵀ), (B, T, n D, n D)."""
        features = self.direction.shape[-1] // self.rotation.shape[-1]
        turned = torch.kron(self.rotation, torch.eye(features).to(self.rotation))
        return blend(turned, householder_matrix(self.direction), self.gate)


class Mixer(Streams):
    """The blend of a rotation of the streams and a reflection of the whole state; read and written through `Stream`'s router.

    Generator and router read the token's own streams, flattened and divided by their root mean square.

    Arguments:
        width: D, of the sublayer and of each stream.
        hidden: features inside the generator.
        streams, gate_bias, start, beta_init, penalty: as for `Stream`.
    """

    spectrum = "singular values from |2γ − 1| to 1"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, streams: int = 4, hidden: int = 48, start: str = "plane",
                 beta_init: float = 0.1, gate_bias: float = 3.0, penalty: float = 0.0):
        super().__init__(width, index, count, streams=streams, fewest=2)
        require_count("hidden", hidden)
        require_number("penalty", penalty, 0)
        size, self.penalty = width * streams, penalty
        self.generator = Generator(size, hidden, 2 * streams + size + 2, "token")
        if start != "published":
            start_generator(self.generator, streams, start, beta_init, gate_bias, reflected=size)
        self.router = small_linear(size, 2 * streams**2)

    def extra_repr(self) -> str:
        return f"streams={self.streams}, penalty={self.penalty}"

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        rotation, direction, gate, read, write = self.coefficients(state)
        if self.penalty:
            add_penalty(self.penalty * midpoint_penalty(gate).mean())
        turned, reflected = stream_mix(state, rotation), delta_shortcut(state.flatten(-2), direction, 2.0).view_as(state)
        z = torch.lerp(reflected, turned, gate.to(state.dtype)[..., None, None])
        return z + write.to(z.dtype).unsqueeze(-1) * sublayer(stream_read(z, read)).unsqueeze(-2)

    def coefficients(self, state: Tensor) -> Coefficients:
        flat = state.flatten(-2)
        normed = F.rms_norm(flat, flat.shape[-1:])
        u, v, beta, direction, gate = plane_direction_gate(self.generator(normed), self.streams)
        return Coefficients(cayley_rank2(u, v, beta), direction, gate, *routes(self.router(normed), self.streams))
