"""x ← Aᵀx + b ⊗ F(norm aᵀx), with a, b and A free: hyper-connections (Zhu et al. 2025, section 2).

Nothing bounds A. The network starts as the plain pre-norm one: a = e_k, b = 1 and A = I, where
sublayer k reads stream k mod n. So a gain that grows with depth is learned, and not there at the
start. In the dynamic form a small linear map of each stream is added to the stream's own row of the
table [b | a | A].

The paper also multiplies the initial standard deviation of each sublayer's last matrix by √n. That
belongs to the backbone: it is `output_std` of its configuration.

Legend: B batch, T positions, D width, n streams.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from geolab.checks import require_option
from geolab.operators import hyper_join, stream_write_read
from geolab.operators.generate import Maps
from geolab.operators.hyper import hyper_coefficients
from geolab.operators.streams import Unwritten
from geolab.residuals.base import Normed
from geolab.residuals.streams import StreamCoefficients, Streams
from geolab.residuals.weights import Weight, put, zero_matrix

EPS = 1e-5  # of the layer norm


class HyperConnections(Streams):
    """Hyper-connections, read out by the sum of the streams.

    Arguments:
        width: D.
        streams: n. The paper finds 4 good, and 1 worse than the plain residual.
        dynamic: True generates a, b and A for each token (the paper's DHC); False learns one set
            for all tokens (SHC).
        tanh: whether to bound the generated numbers, before a learned scale that starts at 0.01.
            The paper has both forms. The scale gets its first gradient at step 1, because it
            multiplies zeros at step 0.
    """

    spectrum = "free"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, streams: int = 4,
                 dynamic: bool = True, tanh: bool = True):
        super().__init__(width, index, count, streams=streams)
        self.copies = streams
        require_option("dynamic", dynamic, (True, False))
        require_option("tanh", tanh, (True, False))
        self.dynamic, self.tanh = dynamic, tanh
        self.stream = index % streams  # k
        self.static = nn.Parameter(torch.empty(streams * (streams + 2)))  # the table, row by row
        if dynamic:
            self.generate = Weight(streams + 2, width, decays=True, how=zero_matrix)
            self.scale = nn.Parameter(torch.empty(2))  # of b, and of a and A
        # a subclass may take another step
        self.joins = all(
            getattr(type(self), name) is getattr(HyperConnections, name)
            for name in ("forward", "coefficients", "step"))
        self.start_own()

    @classmethod
    def idle(cls, options: Mapping[str, Any]) -> dict[str, str]:
        return {} if options["dynamic"] else {"tanh": "dynamic=False"}

    def start_own(self) -> None:
        n = self.streams
        read = torch.eye(n)[self.stream].unsqueeze(-1)
        put(self.static, torch.cat([torch.ones(n, 1), read, torch.eye(n)], dim=-1).flatten())
        if self.dynamic:
            nn.init.constant_(self.scale, 0.01)

    def step(self, state: Tensor | Unwritten, sublayer: Normed) -> Unwritten:
        """Do the step of `forward` without its last write, from a state that is written or not."""
        if self.dynamic:
            z, u, given = hyper_join(state, self.maps(), EPS, self.tanh, sublayer.norm)
        else:
            read, write, mix = self.coefficients(state.x if isinstance(state, Unwritten) else state)
            z, u = stream_write_read(state, read, sublayer.norm)
            # a copy, since a sharded layer has no parameters left when the next layer writes
            given = torch.cat([mix, write.unsqueeze(-2)], dim=-2)
        return Unwritten(z, sublayer.f(u), given)

    def maps(self) -> Maps:
        # the norm has no weight, which the linear map would absorb
        return Maps(self.generate(), self.scale, self.static)

    def coefficients(self, state: Tensor) -> StreamCoefficients:
        if self.dynamic:
            write, read, mix = hyper_coefficients(state, self.maps(), EPS, self.tanh)
            return StreamCoefficients(read, write, mix)
        table = self.static.view(self.streams, -1).expand(*state.shape[:-1], -1)  # (B, T, n, n + 2)
        write, read, rows = table.split([1, 1, self.streams], dim=-1)
        return StreamCoefficients(read.squeeze(-1), write.squeeze(-1), rows.transpose(-2, -1))

    def reduce(self, state: Tensor) -> Tensor:
        return self.streams * super().reduce(state)
