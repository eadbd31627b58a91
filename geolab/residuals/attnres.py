"""X ← X + e_b ⊗ F(norm u), u = Σ_s α_s x_s: attention residuals (Kimi Team 2026, arXiv 2603.15031).

    α_s ∝ exp(wᵀ x_s / rms(x_s))     over the sources x_s that are there, with a learned query w

The state keeps every source: x_0 is the embedding, and x_b the sum of what the sublayers of block b
have written. A sublayer reads a mean of them, which depends on the token. With one sublayer in each
block this is the paper's full form, with several the block form, whose last source is the running
sum. So attention residuals are streams whose write is a unit vector and whose read attends. Their H
is the identity, but that the first write to a place replaces what is there.

The queries start at 0, where a sublayer reads the plain mean, as in the paper. This is the state of
the plain network over the number of sources: a norm behind it doesn't see that factor, but the exit
does. With read="sum" the network starts exactly as the plain one.

The norm of the keys has no weight: w would absorb it.

Legend: B batch, T positions, D width, n sources in the end, k those that a sublayer reads.
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_count, require_number, require_option
from geolab.operators import attend, attend_on, stream_read
from geolab.operators.attend import Attention, attention, place_source
from geolab.residuals.base import Sublayer, Views, takes_views
from geolab.residuals.streams import StreamCoefficients, Streams
from geolab.residuals.weights import Weight, put


class Sources(NamedTuple):
    """A state whose memory nobody else has, so that the next source is written beside the others.
    """

    x: Tensor  # (B, T, n, D)

    def written(self) -> Tensor:
        """(B, T, n, D)."""
        return self.x


class AttnRes(Streams):
    """Attention residuals, in the full or in the block form.

    The state (B, T, n, D) has a place for each source from the entry on, and zeros in those that
    nothing has been written to. No sublayer reads these. With norm_at="post" the norm acts on each
    source after every sublayer; the paper is pre-norm.

    Inkling-2 (transformers, models/inkling2) is block=12, values="normed", scaled=True, eps=1e-6,
    and in its layers of full attention queries=3.

    Arguments:
        width: D.
        block: the sublayers of a block. 1 is the full form; the paper advises about 8 blocks in
            all, of a sublayer for attention and one for the MLP in each layer.
        read: "mean" (the paper: the weights sum to 1) or "sum" (they sum to k).
        values: "plain" (the paper: the sources as they are) or "normed" (divided by their rms, as
            the keys are).
        scaled: whether wᵀ x_s / rms(x_s) is divided by √D.
        eps: the guard inside rms(x) = √(mean x² + eps). None is the dtype's own. A source whose
            square float32 can't hold, of numbers above about 1e19, gives NaN.
        queries: 1, or 3: attention's queries, keys and values then read a mean each (`Views`). It
            needs sublayers that are attention and MLP in turns, and attention that takes `Views`,
            as in `geolab.models`.
    Raises: ValueError for an unknown option, or a number outside its range; with 3 queries, for
        attention that takes a single input.
    """

    spectrum = "1, and 0 for a place that was empty"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, block: int = 1,
                 read: str = "mean", values: str = "plain", scaled: bool = False,
                 eps: float | None = None, queries: int = 1):
        require_count("block", block, 1)
        super().__init__(width, index, count, streams=1 + math.ceil(count / block))
        require_option("read", read, ("mean", "sum"))
        require_option("values", values, ("plain", "normed"))
        require_option("scaled", scaled, (True, False))
        if eps is not None:
            require_number("eps", eps, 0)
        require_option("queries", queries, (1, 3))
        self.how = Attention(eps, scaled, summed=read == "sum", normed=values == "normed")
        self.queries = queries if index % 2 == 0 else 1
        # the place that this sublayer writes to, and k
        self.slot, self.seen = 1 + index // block, 1 + math.ceil(index / block)
        self.opens = index % block == 0  # whether it is the first to write there
        # a subclass may take another step
        self.joins = all(getattr(type(self), name) is getattr(AttnRes, name)
                         for name in ("forward", "coefficients", "step"))
        if index:  # the first sublayer reads x_0 alone
            shape = (width,) if self.queries == 1 else (self.queries, width)
            self.query = nn.Parameter(torch.empty(shape))
        if self.last:
            self.exit = Weight(width, how=nn.init.zeros_)
        self.start_own()

    def start_own(self) -> None:
        if not self.first:
            put(self.query, torch.zeros(self.query.shape))

    def expand(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, n, D): x, and places for the other sources."""
        return F.pad(x.unsqueeze(-2), (0, 0, 0, self.streams - 1))

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        return self.step(state, sublayer).written()

    def step(self, state: Tensor | Sources, sublayer: Sublayer) -> Sources:
        """Do the step of `forward` in a state that later sublayers write to in place."""
        own = isinstance(state, Sources)
        x, heard = self._read(state.x if own else state, sublayer)
        update = sublayer(heard)
        # a norm after the residual may have put its bias into a place that is still empty
        source = update if self.opens else x.select(-2, self.slot) + update
        # not by `stream_mix_write`: H = I would cost n² products
        return Sources(place_source(x, source, self.slot, own and self.opens))

    def _read(self, state: Tensor, sublayer: Sublayer) -> tuple[Tensor, Tensor | Views]:
        """The state to go on with, and the sublayer's input."""
        # who replaces the coefficients sees them used
        if self.first or (self.queries == 1 and "coefficients" in vars(self)):
            return state, stream_read(state, self.coefficients(state).read)
        if self.queries == 1:
            return attend_on(state, self.query, self.how, self.seen)
        if not takes_views(sublayer):
            raise ValueError("queries must be 1 around a sublayer that takes one input for its "
                             "queries, keys and values, got 3")
        found = []
        for query in self.query:
            state, heard = attend_on(state, query, self.how, self.seen)
            found.append(heard)
        return state, Views(*found)

    def coefficients(self, state: Tensor) -> StreamCoefficients:
        """With three queries the read is (B, T, 3, n)."""
        n, tokens = self.streams, state.shape[:-2]
        identity = torch.eye(n, device=state.device, dtype=state.dtype)
        mix = identity - torch.diag(identity[self.slot]) if self.opens else identity
        if self.first:
            read = identity[0].expand(*tokens, n)
        elif self.queries == 1:
            read = self._weights(state, self.query)
        else:
            read = torch.stack([self._weights(state, query) for query in self.query], dim=-2)
        return StreamCoefficients(read, identity[self.slot].expand(*tokens, n),
                                  mix.expand(*tokens, n, n))

    def _weights(self, state: Tensor, query: Tensor) -> Tensor:
        """The weights of all places, 0 for those that nothing has been written to: (B, T, n)."""
        seen = attention(state[..., :self.seen, :], query, self.how)
        return F.pad(seen, (0, self.streams - self.seen))

    def reduce(self, state: Tensor) -> Tensor:
        """(B, T, n, D) -> (B, T, D): the read of a query that belongs to the exit."""
        return attend(state, self.exit(), self.how)
