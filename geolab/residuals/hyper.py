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
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_option
from geolab.residuals.streams import StreamCoefficients, Streams
from geolab.residuals.weights import Linear, put, zero


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
            self.generate = Linear(width, streams + 2, bias=False).start(zero)
            self.scale = nn.Parameter(torch.empty(2))  # of b, and of a and A
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

    def coefficients(self, state: Tensor) -> StreamCoefficients:
        table = self.static.view(self.streams, -1).expand(*state.shape[:-1], -1)  # (B, T, n, n + 2)
        if self.dynamic:
            # layer-norm without a weight: the linear map absorbs it
            numbers = self.generate(F.layer_norm(state, (self.width,)))
            scale = torch.cat([self.scale[:1], self.scale[1:].expand(self.streams + 1)])
            table = table + scale * (numbers.tanh() if self.tanh else numbers)
        write, read, rows = table.split([1, 1, self.streams], dim=-1)
        return StreamCoefficients(read.squeeze(-1), write.squeeze(-1), rows.transpose(-2, -1))

    def reduce(self, state: Tensor) -> Tensor:
        return self.streams * super().reduce(state)
