"""The geometric Transformer: a block is a composition of steps, each with a residual and a norm.

    Post-LN (published)   T(x) = LN(x + f(x))          Pre-LN   T(x) = x + f(LN x)

    A   attention                            F   feed-forward, relu
    C   α · convolution over 3 positions     G   messages over a graph of positions
    M   mixture of experts, in F's place     X   attention to a memory (`decoder.py`)

    transformer F∘A      lite F∘C∘A      full G∘F∘A      moe M∘A

The sources are the Geometric Transformer lecture's listings 1 and 2, its slides on GT-Full and
GT-MoE, and the notebooks of its course, from which some options come. All weights have
PyTorch's own initialisation. As published, C and G read the next position: a model that reads ahead
says `leaks`.

Legend: B batch, T positions, D width, S positions of a memory, E experts.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_count, require_option, require_options, require_width
from geolab.models.layers import angles, require_length
from geolab.models.messages import MessagePassing, RelationGraph, path_graph

ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}
# the letters stand in the order in which their steps act
KINDS = {"transformer": "AF", "lite": "ACF", "full": "AFG", "moe": "AM"}
# the places of dropout: on attention weights, inside F, and on the output that a step adds
PLACES = ("weights", "hidden", *"ACFGMX")


@dataclass(frozen=True)
class GeometricConfig:
    """The sizes and options of the blocks. The options are the lecture's by default; it leaves the
    sizes open.

    Raises: ValueError for an unknown option or a number outside its range.
    """

    width: int = 64             # D
    layers: int = 2             # blocks
    heads: int = 4              # must divide width
    hidden: int = 256           # features inside the feed-forward network, and inside each expert
    norm_at: str = "post"       # "post" or "pre"
    causal: bool = False        # mask attention, pad the convolution left, keep forward edges only
    masked: bool = False        # mask attention alone, as some notebooks do
    dropout: float = 0.1
    dropout_at: tuple[str, ...] = ("weights", "hidden", *"AMX")   # of PLACES
    alpha: float = 0.2          # of the convolution
    activation: str = "relu"    # of the feed-forward network: "relu", or "gelu"
    final_norm: bool = False    # a norm after the last block of Post-LN too, as in some notebooks
    experts: int = 4            # E
    top_k: int = 2              # experts per token; with 1 the gate learns nothing: its weight is 1
    relations: int = 1          # of the graph; from 2, the path graph is typed
    triangles: bool = False     # whether triangles send messages
    normalise: bool = False     # divide messages by their number
    depth: int = 1              # rounds of messages in a step, the lecture's gt_depth
    positions: str = "none"     # "none", "learned" or "sinusoidal", added to the input
    max_length: int = 1024      # the longest sequence, for learned positions

    def __post_init__(self):
        for name in ("width", "layers", "heads", "hidden", "experts", "relations", "depth",
                     "max_length"):
            require_count(name, getattr(self, name))
        if self.width % self.heads:
            raise ValueError("heads must divide width, got width "
                             f"{self.width} and heads {self.heads}")
        if not 1 <= self.top_k <= self.experts:
            raise ValueError(f"top_k must be from 1 to experts = {self.experts}, got {self.top_k}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), got {self.dropout}")
        require_option("norm_at", self.norm_at, ("post", "pre"))
        require_option("positions", self.positions, ("none", "learned", "sinusoidal"))
        require_option("activation", self.activation, ACTIVATIONS)
        require_options("dropout_at", self.dropout_at, PLACES)

    def dropout_of(self, place: str) -> float:
        return self.dropout if place in self.dropout_at else 0.0


class Attention(nn.Module):
    """Multi-head attention of x to itself, or to a memory (B, S, D), with dropout of its weights.
    """

    def __init__(self, width: int, heads: int, dropout: float, causal: bool = False):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, dropout=dropout, batch_first=True)
        self.causal = causal

    def forward(self, x: Tensor, memory: Tensor | None = None) -> Tensor:
        read, mask = x if memory is None else memory, None
        if self.causal:
            mask = torch.ones(x.shape[1], read.shape[1], dtype=torch.bool, device=x.device).triu(1)
        return self.attention(x, read, read, need_weights=False, attn_mask=mask,
                              is_causal=self.causal)[0]


class Convolution(nn.Module):
    """α · Conv(x) over three positions: t and the two before it if causal, else t and its two
    neighbours.
    """

    def __init__(self, width: int, alpha: float = 1.0, causal: bool = False, groups: int = 1):
        super().__init__()
        self.conv = nn.Conv1d(width, width, kernel_size=3, groups=groups)
        self.alpha, self.padding = alpha, (2, 0) if causal else (1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.alpha * self.conv(F.pad(x.mT, self.padding)).mT


class PositionMessages(nn.Module):
    """The sum of the messages that all rounds add to x, on a graph of positions, by default the
    path.
    """

    def __init__(self, config: GeometricConfig):
        super().__init__()
        self.config = config
        self.passing, *later = (
            MessagePassing(config.width, config.relations, config.triangles, config.normalise)
            for _ in range(config.depth))
        self.later = nn.ModuleList(later)

    def forward(self, x: Tensor, graph: RelationGraph | None = None) -> Tensor:
        if graph is None:
            graph = path_graph(x.shape[1], causal=self.config.causal,
                               typed=self.config.relations > 1, triangles=self.config.triangles)
        elif self.config.causal and not graph.causal:
            raise ValueError("graph must be causal in a causal model, got one that isn't")
        total = self.passing.messages(x, graph)
        for passing in self.later:
            total = total + passing.messages(x + total, graph)
        return total


def top_k_weights(logits: Tensor, k: int) -> Tensor:
    """Softmax over the k largest logits, 0 elsewhere: (..., E) -> (..., E).

    The lecture renormalises the k largest shares instead. That is the same, except that it adds
    1e-8 to their sum.
    """
    values, index = logits.topk(k, dim=-1)
    return torch.zeros_like(logits).scatter(-1, index, values.softmax(dim=-1))


def load_balance(logits: Tensor, k: int) -> Tensor:
    """E Σ_e share_e · probability_e: 1 if all experts get equal shares, E/k if k experts get
    everything.

    A loss can contain it (Switch Transformers, Fedus et al. 2022, eq. 4, where k = 1). The
    published model's loss doesn't.

    Arguments:
        logits: (..., E), of the gate.
        k: experts per token. share_e is the share of all choices that fell on e; it has no
            gradient.
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
        self.gate, self.top_k = nn.Linear(D, config.experts), config.top_k

    def forward(self, x: Tensor) -> Tensor:
        weights = top_k_weights(self.gate(x), self.top_k).split(1, dim=-1)
        pairs = zip(weights, self.experts, strict=True)
        return sum((weight * expert(x) for weight, expert in pairs), x.new_zeros(()))


class Step(nn.Module):
    """One sub-operator T: LN(x + f(x)) or x + f(LN x). It passes its further arguments on to f.

    In training, `dropout` acts on the output of f.
    """

    def __init__(self, f: nn.Module, width: int, norm_at: str = "post", dropout: float = 0.0):
        super().__init__()
        self.f, self.norm, self.norm_at = f, nn.LayerNorm(width), norm_at
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, *context) -> Tensor:
        if self.norm_at == "pre":
            return x + self.dropout(self.f(self.norm(x), *context))
        return self.norm(x + self.dropout(self.f(x, *context)))


def make_step(letter: str, config: GeometricConfig) -> Step:
    """The step of a letter: A, C, F, G, M or X."""
    D, heads, hidden, weights = (config.width, config.heads, config.hidden,
                                 config.dropout_of("weights"))
    f = {"A": lambda: Attention(D, heads, weights, config.causal or config.masked),
         "C": lambda: Convolution(D, config.alpha, config.causal),
         "F": lambda: nn.Sequential(
             nn.Linear(D, hidden), ACTIVATIONS[config.activation](),
             nn.Dropout(config.dropout_of("hidden")), nn.Linear(hidden, D)),
         "G": lambda: PositionMessages(config), "M": lambda: MixtureOfExperts(config),
         "X": lambda: Attention(D, heads, weights)}[letter]()
    return Step(f, D, config.norm_at, config.dropout_of(letter))


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
    """The norm after the last block: Pre-LN always has one, Post-LN if the configuration asks for
    it.
    """
    ends = config.norm_at == "pre" or config.final_norm
    return nn.LayerNorm(config.width) if ends else nn.Identity()


def letters_of(kind: str) -> str:
    """The letters of a kind, or the kind itself where it consists of letters."""
    if not kind or set(kind) - set("ACFGM") or len(set(kind)) < len(kind):
        require_option("kind", kind, KINDS)
    return KINDS.get(kind, kind)


def sinusoids(x: Tensor) -> Tensor:
    """sin and cos of t / 10000^(2i/D) by turns (Vaswani et al. 2017, section 3.5): (T, D)."""
    angle = angles(x)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)[:, :x.shape[-1]].to(x.dtype)


class GeometricTransformer(nn.Module):
    """The encoder, or with config.causal a language model's trunk: (B, T, D) -> (B, T, D).

    A Pre-LN model ends with a LayerNorm, a Post-LN model if the configuration asks for it.

    Arguments:
        config: sizes and options.
        kind: "transformer", "lite", "full" or "moe", or the letters of a block's steps in another
            choice and order: "G" passes messages and has no attention.
    """

    def __init__(self, config: GeometricConfig, kind: str = "lite"):
        super().__init__()
        letters = letters_of(kind)
        self.config, self.kind = config, kind
        self.leaks = not config.causal and any(
            letter in "CG" or letter == "A" and not config.masked for letter in letters)
        self.blocks = nn.ModuleList(
            Block({letter: make_step(letter, config) for letter in letters})
            for _ in range(config.layers))
        self.norm = final_norm(config)
        if config.positions == "learned":
            self.position = nn.Parameter(torch.empty(config.max_length, config.width))
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start the encoder's own parameters anew: its learned positions."""
        if self.config.positions == "learned":
            nn.init.normal_(self.position, std=0.02)

    def forward(self, x: Tensor, graph: RelationGraph | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D).

        Arguments:
            x: (B, T, D).
            graph: for steps G, over T vertices; the path graph by default.
        Raises: ValueError for another width, a sequence longer than the learned positions, a graph
            that isn't causal in a causal model, or a graph where no step reads it.
        """
        require_width("input", x, self.config.width)
        if graph is not None and "G" not in letters_of(self.kind):
            raise ValueError(f"graph is read by kind 'full', got one for {self.kind!r}")
        if self.config.positions == "learned":
            require_length(x.shape[-2], self.config.max_length)
            x = x + self.position[:x.shape[-2]]
        elif self.config.positions == "sinusoidal":
            x = x + sinusoids(x)
        for block in self.blocks:
            x = block(x, G=graph)
        return self.norm(x)
