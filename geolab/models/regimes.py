"""The lecture's causal regimes: seven small language models that differ in the positions they read.

    AR   h <- LN(h + Attn(h));  h <- LN(h + FF_relu(h))
    GT   h <- LN(h + Attn(h));  h <- LN(h + FF_gelu(h));  h <- LN(h + Conv(geometry))

Attention is masked in all of them. The depthwise convolution over three positions reads the
`geometry`: the block's own state, or a hint. A hint is the embedding that the model expects next,
computed from the block's input:

    hint_t = stop_gradient( Embᵀ softmax(Out h_t / temperature) )

The hint is a function of the past, hence admissible. But the published convolution also reads it
at t + 1, where it is a function of token t + 1. The notebook calls that model a transition between
its causal and its augmented ones. The last entry has the causal convolution instead, and is
admissible.

The sources are the Geometric Transformer lecture (its model zoo) and its notebook on causal
regimes.

Legend: B batch, T positions, D width, V vocabulary.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_option
from geolab.models.geometric import Attention, Block, Convolution, Step
from geolab.models.layers import require_length

STRICT, ADMISSIBLE = "strict causal", "admissible augmentation"
TRANSITION, FUTURE = "transition", "future-informed"


@dataclass(frozen=True)
class Regime:
    """A model's regime: the one that it declares, the one that is true of it, and the options that
    decide it.
    """

    declared: str               # by the notebook ("augmented" there is "future-informed" here)
    reads_future: bool          # what `geolab.probes.future_influence` finds
    geometry: str = "none"      # convolved: "none", "state", "hint" or "last hint" (from t − 1)
    both_sides: bool = False    # convolve over t − 1, t, t + 1 instead of t − 2, t − 1, t
    next_share: float = 0.0     # how much of h_{t+1} is added to h_t before the output
    temperature: float = 1.0    # of the softmax of a hint

    def __post_init__(self):
        if not self.temperature > 0:
            raise ValueError(f"temperature must be above 0, got {self.temperature}")


REGIMES = {
    "AR-Base": Regime(STRICT, False),
    "AR+FutureHint": Regime(FUTURE, True, next_share=0.2),
    "GT-CausalGeom": Regime(STRICT, False, "state"),
    "GT-AugGeom": Regime(FUTURE, True, "state", both_sides=True),
    "GT-PredictiveHint": Regime(TRANSITION, True, "hint", both_sides=True),
    "GT-CausalSelfHint": Regime(STRICT, False, "last hint"),
    "GT-PredictiveHint, causal": Regime(ADMISSIBLE, False, "hint"),  # our causal repair
}


class Depthwise(nn.Module):
    """Depthwise convolution over positions, of the state or of a hint in its place."""

    def __init__(self, width: int, both_sides: bool):
        super().__init__()
        self.conv = Convolution(width, causal=not both_sides, groups=width)

    def forward(self, h: Tensor, hint: Tensor | None = None) -> Tensor:
        return self.conv(h if hint is None else hint)


def make_block(regime: Regime, width: int, heads: int, dropout: float) -> Block:
    """Make a Post-LN block of steps A and F, with C if there is a geometry, and 4D hidden features.

    Dropout acts on the output that each step adds. Without a geometry it also acts on attention
    weights and inside F.
    """
    up, down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
    plain = regime.geometry == "none"
    act = [nn.ReLU(), nn.Dropout(dropout)] if plain else [nn.GELU()]
    f = {"A": Attention(width, heads, dropout if plain else 0.0, causal=True),
         "F": nn.Sequential(up, *act, down)}
    if not plain:
        f["C"] = Depthwise(width, regime.both_sides)
    return Block({letter: Step(f[letter], width, dropout=dropout) for letter in f})


class RegimeModel(nn.Module):
    """Tokens to logits under one regime: (B, T) -> (B, T, V).

    Output and embedding aren't tied, and have PyTorch's own initialisation. A hint has no gradient,
    so derivatives miss its influence on the output: probe with tokens.

    Arguments:
        name: in `REGIMES`, or a Regime: one of them with another share or temperature, by
            `dataclasses.replace`.
        vocabulary: V.
        width, layers, heads, dropout: as in the lecture's notebook.
        max_length: the longest sequence, 128 there.
    Raises: ValueError for an unknown name, heads that don't divide width, or a sequence longer than
        max_length.
    """

    def __init__(self, name: str | Regime, vocabulary: int, width: int = 64, layers: int = 2,
                 heads: int = 4, max_length: int = 128, dropout: float = 0.1):
        super().__init__()
        if isinstance(name, str):
            require_option("name", name, REGIMES)
        if width % heads:
            raise ValueError(f"heads must divide width, got width {width} and heads {heads}")
        self.regime = REGIMES[name] if isinstance(name, str) else name
        self.max_length = max_length
        self.leaks = self.regime.reads_future
        self.embedding = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(max_length, width)
        self.blocks = nn.ModuleList(make_block(self.regime, width, heads, dropout)
                                    for _ in range(layers))
        self.output = nn.Linear(width, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        T = tokens.shape[1]
        require_length(T, self.max_length)
        h = self.embedding(tokens) + self.position.weight[:T]
        for block in self.blocks:
            h = block(h, C=self.hint(h)) if "hint" in self.regime.geometry else block(h)
        if self.regime.next_share:  # nothing comes after the last position
            h = h + self.regime.next_share * F.pad(h[:, 1:], (0, 0, 0, 1))
        return self.output(h)

    @torch.no_grad()
    def hint(self, h: Tensor) -> Tensor:
        """The embedding expected next at a block's input: (B, T, D) -> (B, T, D).

        For the geometry "last hint", it is the one that was expected one position before.
        """
        logits = self.output(h) / self.regime.temperature
        expected = logits.softmax(dim=-1) @ self.embedding.weight
        if self.regime.geometry == "last hint":
            return F.pad(expected[:, :-1], (0, 0, 1, 0))
        return expected
