"""The geometric Transformer: a block is a composition of steps, each with a residual and a norm.

    Post-LN (published)   T(x) = LN(x + f(x))          Pre-LN   T(x) = x + f(LN x)

    A   attention                            F   feed-forward, relu
    C   α · convolution over 3 positions     G   messages over a graph of positions
    M   mixture of experts, in F's place     X   attention to a memory (decoder)

    transformer F∘A      lite F∘C∘A      full G∘F∘A      moe M∘A

The sources are the Geometric Transformer lecture's listings 1 and 2, and its slides on GT-Full and
GT-MoE. All weights have PyTorch's own initialisation. As published, C and G read the next position:
a model that isn't built causal says `leaks`.

Legend: B batch, T positions, D width, S positions of a memory, E experts.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_count, require_option, require_width
from geolab.models.backbone import require_length
from geolab.models.messages import MessagePassing, RelationGraph, path_graph

ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}
# letters in the order in which they act
KINDS = {"transformer": "AF", "lite": "ACF", "full": "AFG", "moe": "AM"}


@dataclass(frozen=True)
class GeometricConfig:
    """What the blocks are made of. The defaults are the lecture's, which leaves the sizes open.

    Raises: ValueError for an unknown option or a number outside its range.
    """

    width: int = 64             # D
    layers: int = 2             # blocks
    heads: int = 4              # must divide width
    hidden: int = 256           # features inside the feed-forward network, and inside each expert
    norm_at: str = "post"       # "post" or "pre"
    causal: bool = False        # mask attention, pad the convolution left, keep forward edges only
    dropout: float = 0.1
    alpha: float = 0.2          # of the convolution
    activation: str = "relu"    # of the feed-forward network: "relu", or "gelu"
    final_norm: bool = False    # a norm after the last block of Post-LN too, as in some notebooks
    experts: int = 4            # E
    top_k: int = 2              # experts per token; with 1 the gate learns nothing: its weight is 1
    relations: int = 1          # of the graph; from 2, the path graph is typed
    triangles: bool = False     # whether triangles send messages
    normalise: bool = False     # divide messages by their number
    positions: str = "none"     # "none" or "learned", added to the input
    max_length: int = 1024      # the longest sequence, for learned positions

    def __post_init__(self):
        for name in ("width", "layers", "heads", "hidden", "experts", "relations", "max_length"):
            require_count(name, getattr(self, name))
        if self.width % self.heads:
            raise ValueError("heads must divide width, got width "
                             f"{self.width} and heads {self.heads}")
        if not 1 <= self.top_k <= self.experts:
            raise ValueError(f"top_k must be from 1 to experts = {self.experts}, got {self.top_k}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), got {self.dropout}")
        require_option("norm_at", self.norm_at, ("post", "pre"))
        require_option("positions", self.positions, ("none", "learned"))
        require_option("activation", self.activation, ACTIVATIONS)


class Attention(nn.Module):
    """Multi-head attention of x to itself, or to a memory (B, S, D)."""

    def __init__(self, width: int, heads: int, dropout: float, causal: bool = False):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, dropout=dropout, batch_first=True)
        self.dropout, self.causal = nn.Dropout(dropout), causal

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        read, mask = x if memory is None else memory, None
        if self.causal:
            mask = torch.ones(x.shape[1], read.shape[1], dtype=torch.bool, device=x.device).triu(1)
        return self.dropout(self.attention(x, read, read, need_weights=False, attn_mask=mask,
                                           is_causal=self.causal)[0])


class Convolution(nn.Module):
    """α · Conv(x) over three positions: t and the two before if causal, else one on either side."""

    def __init__(self, width: int, alpha: float = 1.0, causal: bool = False, groups: int = 1):
        super().__init__()
        self.conv = nn.Conv1d(width, width, kernel_size=3, groups=groups)
        self.alpha, self.padding = alpha, (2, 0) if causal else (1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.alpha * self.conv(F.pad(x.mT, self.padding)).mT


class PositionMessages(nn.Module):
    """Messages between positions, on the path graph by default. The lecture's gt_depth is 1."""

    def __init__(self, config: GeometricConfig):
        super().__init__()
        self.config = config
        self.passing = MessagePassing(config.width, config.relations, config.triangles,
                                      config.normalise)

    def forward(self, x: Tensor, graph: RelationGraph | None = None) -> Tensor:
        if graph is None:
            graph = path_graph(x.shape[1], causal=self.config.causal,
                               typed=self.config.relations > 1, triangles=self.config.triangles)
        elif self.config.causal and not graph.causal:
            raise ValueError("graph must be causal in a causal model, got one that isn't")
        return self.passing.messages(x, graph)


def top_k_weights(logits: Tensor, k: int) -> Tensor:
    """Softmax over the k largest logits, 0 elsewhere: (..., E) -> (..., E).

    The lecture renormalises the k largest shares instead. That is the same, except that it adds
    1e-8 to their sum.
    """
    values, index = logits.topk(k, dim=-1)
    return torch.zeros_like(logits).scatter(-1, index, values.softmax(dim=-1))


def load_balance(logits: Tensor, k: int) -> Tensor:
    """E Σ_e share_e · probability_e: 1 if all experts are used alike, E/k if k do everything.

    A loss can contain it (Switch Transformers, Fedus et al. 2022, eq. 4, where k = 1). The
    published model's loss doesn't.

    Arguments:
        logits: (..., E), of the gate.
        k: experts per token. share_e is the part of all choices that fell on e; it has no gradient.
    Returns: a scalar.
    """
    experts = logits.shape[-1]
    chosen = torch.zeros_like(logits).scatter(-1, logits.topk(k, dim=-1).indices, 1 / k)
    share = chosen.flatten(0, -2).mean(dim=0)
    return experts * share @ logits.softmax(dim=-1).flatten(0, -2).mean(dim=0)


class MixtureOfExperts(nn.Module):
    """Σ_e w_e(x) expert_e(x).

    As in the lecture, every expert is evaluated on every token, so a small k saves no time.
    """

    def __init__(self, config: GeometricConfig):
        super().__init__()
        D, hidden = config.width, config.hidden
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(D, hidden), nn.GELU(), nn.Linear(hidden, D))
            for _ in range(config.experts))
        self.gate, self.dropout = nn.Linear(D, config.experts), nn.Dropout(config.dropout)
        self.top_k = config.top_k

    def forward(self, x: Tensor) -> Tensor:
        weights = top_k_weights(self.gate(x), self.top_k).split(1, dim=-1)
        pairs = zip(weights, self.experts, strict=True)
        return self.dropout(sum(weight * expert(x) for weight, expert in pairs))


class Step(nn.Module):
    """One sub-operator T: LN(x + f(x)) or x + f(LN x). It hands on what f reads besides x."""

    def __init__(self, f: nn.Module, width: int, norm_at: str = "post"):
        super().__init__()
        self.f, self.norm, self.norm_at = f, nn.LayerNorm(width), norm_at

    def forward(self, x: Tensor, *context) -> Tensor:
        if self.norm_at == "pre":
            return x + self.f(self.norm(x), *context)
        return self.norm(x + self.f(x, *context))


def make_step(letter: str, config: GeometricConfig) -> Step:
    """The step of a letter: A, C, F, G, M or X."""
    D, heads, hidden, dropout = config.width, config.heads, config.hidden, config.dropout
    f = {"A": lambda: Attention(D, heads, dropout, config.causal),
         "C": lambda: Convolution(D, config.alpha, config.causal),
         "F": lambda: nn.Sequential(
             nn.Linear(D, hidden), ACTIVATIONS[config.activation](), nn.Dropout(dropout),
             nn.Linear(hidden, D)),
         "G": lambda: PositionMessages(config),
         "M": lambda: MixtureOfExperts(config),
         "X": lambda: Attention(D, heads, dropout)}[letter]()
    return Step(f, D, config.norm_at)


class Block(nn.Module):
    """Steps by their letters, one after the other.

    `steps["A"]` is a function (B, T, D) -> (B, T, D), for the probes.
    """

    def __init__(self, steps: dict[str, Step]):
        super().__init__()
        self.steps = nn.ModuleDict(steps)

    def forward(self, x: Tensor, **context) -> Tensor:
        """(B, T, D) -> (B, T, D). `context` holds, by letter, what a step reads besides x."""
        for letter, step in self.steps.items():
            x = step(x, context[letter]) if letter in context else step(x)
        return x


def final_norm(config: GeometricConfig) -> nn.Module:
    """A norm after the last block: of Pre-LN always, of Post-LN if the configuration asks."""
    ends = config.norm_at == "pre" or config.final_norm
    return nn.LayerNorm(config.width) if ends else nn.Identity()


class GeometricTransformer(nn.Module):
    """The encoder, or with config.causal a language model's trunk: (B, T, D) -> (B, T, D).

    A Pre-LN model ends with a LayerNorm, a Post-LN model if the configuration asks for it.

    Arguments:
        config: sizes and options.
        kind: "transformer", "lite", "full" or "moe".
    """

    def __init__(self, config: GeometricConfig, kind: str = "lite"):
        super().__init__()
        require_option("kind", kind, KINDS)
        self.config, self.kind, self.leaks = config, kind, not config.causal
        self.blocks = nn.ModuleList(
            Block({letter: make_step(letter, config) for letter in KINDS[kind]})
            for _ in range(config.layers))
        self.norm = final_norm(config)
        if config.positions == "learned":
            self.position = nn.Parameter(torch.randn(config.max_length, config.width) * 0.02)

    def forward(self, x: Tensor, graph: RelationGraph | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D).

        Arguments:
            x: (B, T, D).
            graph: for "full", over T vertices; the path graph by default.
        Raises: ValueError for another width, a sequence longer than the learned positions, a graph
            that isn't causal in a causal model, or a graph for another kind than "full".
        """
        require_width("input", x, self.config.width)
        if graph is not None and "G" not in KINDS[self.kind]:
            raise ValueError(f"graph is read by kind 'full', got one for {self.kind!r}")
        if self.config.positions == "learned":
            require_length(x.shape[-2], self.config.max_length)
            x = x + self.position[:x.shape[-2]]
        for block in self.blocks:
            x = block(x, G=graph)
        return self.norm(x)


class GeometricDecoder(nn.Module):
    """The decoder of listing 2, for every kind: A, X, then what follows A in the kind.

    Attention is always masked. Listing 2 convolves on both sides nevertheless, so that position t
    reads the token that it should predict. Here C and G are causal too by default, with the same
    weights from the same seed.

    Arguments:
        config: sizes and options, without `causal` and `positions`, which are the encoder's.
        kind: as in `GeometricTransformer`.
        published: whether to convolve (and pass messages) on both sides; `leaks` says so.
    """

    def __init__(self, config: GeometricConfig, kind: str = "lite", *, published: bool = False):
        super().__init__()
        require_option("kind", kind, KINDS)
        letters = "AX" + KINDS[kind][1:]
        self.config, self.leaks = config, published and ("C" in letters or "G" in letters)
        causal = {letter: replace(config, causal=letter == "A" or not published)
                  for letter in letters}
        self.blocks = nn.ModuleList(
            Block({letter: make_step(letter, causal[letter]) for letter in letters})
            for _ in range(config.layers))
        self.norm = final_norm(config)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        """(B, T, D), (B, S, D) -> (B, T, D)."""
        for block in self.blocks:
            x = block(x, X=memory)
        return self.norm(x)
