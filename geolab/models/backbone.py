"""The one Transformer of the book: a causal stack of attention and MLP sublayers that takes any residual.

What differs between the papers' backbones is configuration: `TransformerConfig.ddl` (RMSNorm, RoPE, normalised
queries and keys, SwiGLU) and `TransformerConfig.benchmark` (LayerNorm, learned positions, GELU, as E-MHC-Geo
trains it). Each module initialises its own weights, once; nothing overwrites them afterwards.

Legend: B batch, T positions, D width, H heads, E features a head.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_count
from geolab.penalties import add_penalty
from geolab.residuals import Residual, make_residual


@dataclass(frozen=True)
class TransformerConfig:
    """What the backbone is made of. The defaults are the DDL paper's choices, at a small size."""

    width: int = 64                    # D
    layers: int = 4                    # blocks, of two sublayers each
    heads: int = 4                     # H; D must be divisible by it
    hidden: int = 170                  # features inside the MLP
    max_length: int = 1024             # longest sequence
    norm: str = "rms"                  # "rms" or "layer"; a weight, no bias
    norm_at: str = "pre"               # "pre": x + F(norm x); "post": norm(x + F(x)), each stream by itself
    positions: str = "rope"            # "rope" or "learned"
    qk_norm: bool = True               # normalise queries and keys, after the rotation
    mlp: str = "swiglu"                # "swiglu" or "gelu"
    causal: bool = True                # False drops the attention mask: the model then reads the future
    init_std: float = 0.0625           # of every matrix
    output_std: float = 0.03125        # of the last matrix of each sublayer

    def __post_init__(self):
        for name, known in OPTIONS.items():
            if getattr(self, name) not in known:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {getattr(self, name)!r}")
        for name in ("width", "layers", "heads", "hidden", "max_length"):
            require_count(name, getattr(self, name))
        if self.width % self.heads:
            raise ValueError(f"width must be divisible by heads, got width {self.width} and heads {self.heads}")
        if self.positions == "rope" and self.width // self.heads % 2:
            raise ValueError(f"rope needs an even number of features a head, got {self.width // self.heads}")

    @classmethod
    def ddl(cls, width: int = 64, layers: int = 4, heads: int = 4, **changes) -> "TransformerConfig":
        """The backbone of Deep Delta Learning (section 5 and appendix B), at any size."""
        std = 0.5 / math.sqrt(width)
        return replace(cls(width=width, layers=layers, heads=heads, hidden=8 * width // 3, init_std=std,
                           output_std=std / math.sqrt(layers)), **changes)

    @classmethod
    def benchmark(cls, width: int = 128, layers: int = 9, heads: int = 4, **changes) -> "TransformerConfig":
        """The GPT of the E-MHC-Geo benchmark (its Table 5), at any size."""
        return replace(cls(width=width, layers=layers, heads=heads, hidden=4 * width, norm="layer",
                           positions="learned", qk_norm=False, mlp="gelu", init_std=0.02,
                           output_std=0.02 / math.sqrt(2 * layers)), **changes)


OPTIONS = {"norm": ("rms", "layer"), "norm_at": ("pre", "post"), "positions": ("rope", "learned"),
           "mlp": ("swiglu", "gelu")}


def make_norm(config: TransformerConfig) -> nn.Module:
    return nn.RMSNorm(config.width, eps=1e-5) if config.norm == "rms" else nn.LayerNorm(config.width, bias=False)


def linear(inputs: int, outputs: int, std: float) -> nn.Linear:
    """A bias-free linear map with entries N(0, std²)."""
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(layer.weight, std=std)
    return layer


def product(left: Tensor | None, right: Tensor | None) -> Tensor:
    """left right, or the one that there is: two maps in a row as one.

    A step then costs a product of two matrices in place of one with all B T tokens: less, once B T exceeds F's hidden features.
    """
    return right if left is None else left if right is None else left @ right


def rotate(x: Tensor, base: float = 1e4) -> Tensor:
    """Rotary positions over the full head: (B, H, T, E) -> (B, H, T, E)."""
    T, E = x.shape[-2:]
    dtype = torch.promote_types(x.dtype, torch.float32)  # half precision can't tell position 1000 from 1001
    frequency = base ** (-torch.arange(0, E, 2, device=x.device, dtype=dtype) / E)
    angle = torch.arange(T, device=x.device, dtype=dtype)[:, None] * frequency            # (T, E/2)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class Attention(nn.Module):
    """Multi-head self-attention, causal unless the configuration says otherwise."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.qkv = linear(config.width, 3 * config.width, config.init_std)
        self.out = linear(config.width, config.width, config.output_std)
        if config.qk_norm:
            self.q_norm = nn.RMSNorm(config.width // config.heads, eps=1e-5)
            self.k_norm = nn.RMSNorm(config.width // config.heads, eps=1e-5)

    def forward(self, x: Tensor, before: Tensor | None = None, after: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D), between two (D, D) maps where they are given: after F(before x)."""
        B, T, D = x.shape
        numbers = F.linear(x, product(self.qkv.weight, before))
        q, k, v = numbers.view(B, T, 3, self.config.heads, -1).permute(2, 0, 3, 1, 4)      # each (B, H, T, E)
        if self.config.positions == "rope":
            q, k = rotate(q), rotate(k)
        if self.config.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.config.causal)
        return F.linear(y.transpose(1, 2).reshape(B, T, D), product(after, self.out.weight))


class MLP(nn.Module):
    """out(gelu(up x)), or SwiGLU: out(silu(gate x) ⊙ up x), between two maps as in `Attention`."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.up = linear(config.width, config.hidden, config.init_std)
        self.gate = linear(config.width, config.hidden, config.init_std) if config.mlp == "swiglu" else None
        self.out = linear(config.hidden, config.width, config.output_std)

    def forward(self, x: Tensor, before: Tensor | None = None, after: Tensor | None = None) -> Tensor:
        h = F.linear(x, product(self.up.weight, before))
        h = F.gelu(h) if self.gate is None else F.silu(F.linear(x, product(self.gate.weight, before))) * h
        return F.linear(h, product(after, self.out.weight))


class Layer(nn.Module):
    """One sublayer with its norm, and the residual around both."""

    def __init__(self, config: TransformerConfig, mix: nn.Module, residual: Residual):
        super().__init__()
        self.norm, self.mix, self.residual = make_norm(config), mix, residual
        self.norm_at = config.norm_at

    def sublayer(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D): F(norm x), or F(x) where the norm comes after, between the residual's two maps."""
        return self.mix(self.norm(x) if self.norm_at == "pre" else x, self.residual.before, self.residual.after)

    def forward(self, state: Tensor) -> Tensor:
        state = self.residual(state, self.sublayer)
        return state if self.norm_at == "pre" else self.norm(state)


class Transformer(nn.Module):
    """The trunk, (B, T, D) -> (B, T, D).

    Arguments:
        config: the backbone.
        residual: a name in `geolab.residuals.REGISTRY` or a Residual class; options go to its constructor.
    Raises: ValueError for an unknown residual, a max_length below the reach of its convolutions, norm_at="post" around a state
        that isn't one of streams, a sequence longer than config.max_length, or an input without batch, positions or config.width
        features.
    """

    def __init__(self, config: TransformerConfig, residual: str | type[Residual] = "additive", **options):
        super().__init__()
        self.config = config
        mixers = [mixer(config) for _ in range(config.layers) for mixer in (Attention, MLP)]
        self.layers = nn.ModuleList(
            Layer(config, mix, make_residual(residual, config.width, index=index, count=len(mixers), **options))
            for index, mix in enumerate(mixers))
        reach = max(layer.residual.reach for layer in self.layers)
        if config.max_length < reach:
            raise ValueError(f"max_length must be at least {reach}, the positions that a convolution of {residual!r} reads, "
                             f"got {config.max_length}")
        if config.norm_at == "post":
            self._require_streams(residual)
        self.norm = make_norm(config) if config.norm_at == "pre" else nn.Identity()
        if config.positions == "learned":
            self.position = nn.Parameter(torch.randn(1, config.max_length, config.width) * config.init_std)

    def extra_repr(self) -> str:
        return repr(self.config)

    @torch.no_grad()
    def _require_streams(self, residual: str | type[Residual]) -> None:
        """A norm after the residual has the width of a stream, and must meet streams."""
        shape = self.layers[0].residual.expand(torch.zeros(1, 1, self.config.width)).shape
        if shape[-1] != self.config.width:
            raise ValueError(f"norm_at='post' normalises streams of width {self.config.width}, and the state of {residual!r} "
                             f"has shape {tuple(shape)}; use norm_at='pre'")

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 3 or not x.shape[1]:
            raise ValueError(f"input must be (batch, positions, width), with at least 1 position, got shape {tuple(x.shape)}")
        T, D = x.shape[1:]
        if D != self.config.width:
            raise ValueError(f"input must have width {self.config.width}, got shape {tuple(x.shape)}")
        if T > self.config.max_length:
            raise ValueError(f"sequence of {T} positions is longer than max_length = {self.config.max_length}")
        if self.config.positions == "learned":
            x = x + self.position[:, :T]
        state = self.layers[0].residual.expand(x)
        for layer in self.layers:
            state = layer(state)
        return self.norm(self.layers[-1].residual.reduce(state))


class ContinuousModel(nn.Module):
    """Vectors in, vectors out: (B, T, d_in) -> (B, T, d_in), around a trunk."""

    def __init__(self, trunk: Transformer, dim: int):
        super().__init__()
        require_count("dim", dim)
        self.trunk = trunk
        self.read = nn.Linear(dim, trunk.config.width)
        self.write = nn.Linear(trunk.config.width, dim)
        for layer in (self.read, self.write):
            nn.init.normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.write(self.trunk(self.read(x)))


class TokenModel(nn.Module):
    """Tokens in, logits out: (B, T) -> (B, T, vocabulary), around a trunk, with one tied embedding."""

    def __init__(self, trunk: Transformer, vocabulary: int):
        super().__init__()
        require_count("vocabulary", vocabulary)
        self.trunk = trunk
        self.embedding = nn.Embedding(vocabulary, trunk.config.width)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        return F.linear(self.trunk(self.embedding(tokens)), self.embedding.weight)


class PointModel(nn.Module):
    """Features in, scores out, at each position: (B, T, inputs) -> (B, T, outputs), around a trunk; PyTorch's own initialisation.

    Arguments:
        reads: what the trunk reads besides x, such as a graph.
        penalty: `penalty(model, x, h)` is added to the loss while the model trains; h (B, T, D) is what `states(x)` returned.
    """

    def __init__(self, trunk: nn.Module, inputs: int, outputs: int, reads: tuple = (),
                 penalty: Callable[[nn.Module, Tensor, Tensor], Tensor] | None = None):
        super().__init__()
        require_count("inputs", inputs)
        require_count("outputs", outputs)
        self.trunk, self.reads, self.penalty = trunk, reads, penalty
        self.read = nn.Linear(inputs, trunk.config.width)
        self.write = nn.Linear(trunk.config.width, outputs)

    def states(self, x: Tensor) -> Tensor:
        return self.trunk(self.read(x), *self.reads)

    def forward(self, x: Tensor) -> Tensor:
        h = self.states(x)
        if self.penalty is not None and self.training:
            add_penalty(self.penalty(self, x, h))
        return self.write(h)
