"""The backbone of the residuals: a causal stack of attention and MLP sublayers, with any residual.

The papers' backbones differ in configuration only: `TransformerConfig.ddl` (RMSNorm, RoPE,
normalised queries and keys, SwiGLU) and `TransformerConfig.benchmark` (LayerNorm, learned
positions, GELU, as E-MHC-Geo trains it). Each module initialises its own weights, once; nothing
overwrites them afterwards.

Legend: B batch, T positions, D width, H heads, E features per head.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.checks import require_count, require_option, require_width
from geolab.operators import recomputed
from geolab.residuals import Normed, Residual, Weight, make_residual
from geolab.residuals.weights import normal_matrix

OPTIONS = {"norm": ("rms", "layer"), "norm_at": ("pre", "post"), "positions": ("rope", "learned"),
           "mlp": ("swiglu", "gelu")}


@dataclass(frozen=True)
class TransformerConfig:
    """What the backbone is made of. The defaults are the DDL paper's choices, at a small size.

    Raises: ValueError for an unknown option, a size that isn't a positive whole number, a width
        that heads doesn't divide, or rope with an odd number of features per head.
    """

    width: int = 64                    # D
    layers: int = 4                    # blocks, of two sublayers each
    heads: int = 4                     # H; it must divide D
    hidden: int = 170                  # features inside the MLP
    max_length: int = 1024             # the longest sequence
    norm: str = "rms"                  # "rms" or "layer"; a weight, no bias
    norm_at: str = "pre"               # "pre": x + F(norm x); "post": norm(x + F(x)), per stream
    positions: str = "rope"            # "rope" or "learned"
    qk_norm: bool = True               # normalise queries and keys, after the rotation
    mlp: str = "swiglu"                # "swiglu" or "gelu"
    causal: bool = True                # False: no attention mask, so the model reads the future
    init_std: float = 0.0625           # of every matrix
    output_std: float = 0.03125        # of the last matrix of each sublayer

    def __post_init__(self):
        for name, known in OPTIONS.items():
            require_option(name, getattr(self, name), known)
        for name in ("width", "layers", "heads", "hidden", "max_length"):
            require_count(name, getattr(self, name))
        if self.width % self.heads:
            raise ValueError("width must be divisible by heads, got width "
                             f"{self.width} and heads {self.heads}")
        if self.positions == "rope" and self.width // self.heads % 2:
            raise ValueError("rope needs an even number of features per head, got "
                             f"{self.width // self.heads}")

    @classmethod
    def ddl(cls, width: int = 64, layers: int = 4, heads: int = 4,
            **changes) -> "TransformerConfig":
        """The backbone of Deep Delta Learning (section 5 and appendix B), at any size."""
        std = 0.5 / math.sqrt(width)
        return replace(cls(width=width, layers=layers, heads=heads, hidden=8 * width // 3,
                           init_std=std, output_std=std / math.sqrt(layers)), **changes)

    @classmethod
    def benchmark(cls, width: int = 128, layers: int = 9, heads: int = 4,
                  **changes) -> "TransformerConfig":
        """The GPT of the E-MHC-Geo benchmark (its table 5), at any size."""
        return replace(cls(width=width, layers=layers, heads=heads, hidden=4 * width, norm="layer",
                           positions="learned", qk_norm=False, mlp="gelu", init_std=0.02,
                           output_std=0.02 / math.sqrt(2 * layers)), **changes)


def make_norm(config: TransformerConfig, width: int | None = None) -> nn.Module:
    """The norm of a sublayer's input, or of `width` features."""
    D = width or config.width
    return nn.RMSNorm(D, eps=1e-5) if config.norm == "rms" else nn.LayerNorm(D, bias=False)


def matrix(inputs: int, outputs: int, std: float) -> Weight:
    """A matrix with entries N(0, std²), to be folded with others before it meets a token."""
    return Weight(outputs, inputs, how=partial(normal_matrix, std=std), decays=True)


def fold(weight: Tensor, before: Tensor | None = None, after: Tensor | None = None) -> Tensor:
    """after · weight · before, without what is None: maps in a row as one map.

    A step then costs one product of two matrices instead of one with all B T tokens. This is less
    work once B T exceeds F's hidden features.
    """
    weight = weight if before is None else weight @ before
    return weight if after is None else after @ weight


def require_length(positions: int, max_length: int) -> None:
    """Raise ValueError for a sequence longer than max_length."""
    if positions > max_length:
        raise ValueError(f"sequence of {positions} positions is longer than "
                         f"max_length = {max_length}")


def angles(x: Tensor, base: float = 1e4) -> Tensor:
    """t base^(−2i/E) for x (..., T, E): (T, E/2)."""
    T, E = x.shape[-2:]
    # half precision can't tell position 1000 from 1001
    dtype = torch.promote_types(x.dtype, torch.float32)
    frequency = base ** (-torch.arange(0, E, 2, device=x.device, dtype=dtype) / E)
    return torch.arange(T, device=x.device, dtype=dtype)[:, None] * frequency


def rotate(x: Tensor, base: float = 1e4) -> Tensor:
    """Rotary positions over the full head: (B, H, T, E) -> (B, H, T, E)."""
    angle = angles(x, base)
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class Attention(nn.Module):
    """Multi-head self-attention, causal unless the configuration says otherwise."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.qkv = matrix(config.width, 3 * config.width, config.init_std)
        self.out = matrix(config.width, config.width, config.output_std)
        if config.qk_norm:
            self.q_norm = nn.RMSNorm(config.width // config.heads, eps=1e-5)
            self.k_norm = nn.RMSNorm(config.width // config.heads, eps=1e-5)

    def forward(self, x: Tensor, before: Tensor | None = None,
                after: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D): F(x), or after F(before x) with (D, D) maps."""
        B, T, D = x.shape
        qkv = F.linear(x, fold(self.qkv(), before)).view(B, T, 3, self.config.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)                                  # each (B, H, T, E)
        if self.config.positions == "rope":
            q, k = rotate(q), rotate(k)
        if self.config.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.config.causal)
        return F.linear(y.transpose(1, 2).reshape(B, T, D), fold(self.out(), after=after))


class MLP(nn.Module):
    """out(gelu(up x)), or SwiGLU: out(silu(gate x) ⊙ up x); between two maps as in `Attention`."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.up = matrix(config.width, config.hidden, config.init_std)
        gated = config.mlp == "swiglu"
        self.gate = matrix(config.width, config.hidden, config.init_std) if gated else None
        self.out = matrix(config.hidden, config.width, config.output_std)

    def forward(self, x: Tensor, before: Tensor | None = None,
                after: Tensor | None = None) -> Tensor:
        h = F.linear(x, fold(self.up(), before))
        gate = None if self.gate is None else F.linear(x, fold(self.gate(), before))
        h = F.gelu(h) if gate is None else F.silu(gate) * h
        return F.linear(h, fold(self.out(), after=after))


class Layer(nn.Module):
    """One sublayer F (`mix`) with its norm, and the residual around both."""

    def __init__(self, config: TransformerConfig, mix: nn.Module, residual: Residual):
        super().__init__()
        self.norm, self.mix, self.residual = make_norm(config), mix, residual
        self.norm_at = config.norm_at

    @property
    def sublayer(self) -> Normed:
        """x -> F(norm x), or x -> F(x) where the norm comes after the residual."""
        return Normed(self.mix, self.norm if self.norm_at == "pre" else None, fused=True)

    def forward(self, state: Any, joined: bool = False) -> Any:
        """state -> state; if it is `joined` to the next layer, that one writes the state."""
        if joined:
            return self.residual.step(state, self.sublayer)
        state = self.residual(state, self.sublayer)
        return state if self.norm_at == "pre" else self.norm(state)


class Transformer(nn.Module):
    """The trunk, (B, T, D) -> (B, T, D).

    Arguments:
        config: the backbone.
        residual: a name in `geolab.residuals.REGISTRY` or a Residual class.
        options: for the residual's constructor.
    Attributes:
        width: features of input and output: config.width, or more where the residual's `outer` says
            so. Positions and the last norm have as many.
        recompute: of so many layers in a row the backward pass keeps only the first state, and
            computes the others again (see `operators.recomputed`). With 0 it keeps all of them.
    Raises: ValueError for an unknown residual, a max_length below the reach of its convolutions,
        norm_at="post" around a state that doesn't consist of streams, a sequence longer than
        config.max_length, or an input without batch, positions or `width` features.
    """

    recompute = 0

    def __init__(self, config: TransformerConfig, residual: str | type[Residual] = "additive",
                 **options):
        super().__init__()
        self.config = config
        mixers = [mixer(config) for _ in range(config.layers) for mixer in (Attention, MLP)]
        self.layers = nn.ModuleList(
            Layer(config, mix, make_residual(residual, config.width, index, len(mixers), **options))
            for index, mix in enumerate(mixers))
        for before, layer in pairwise(self.layers):
            layer.residual.follow(before.residual)
        reach = max(layer.residual.reach for layer in self.layers)
        if config.max_length < reach:
            raise ValueError(f"max_length must be at least {reach}, the positions that a "
                             f"convolution of {residual!r} reads, got {config.max_length}")
        if config.norm_at == "post":
            self._require_streams(residual)
        self.norm = make_norm(config, self.width) if config.norm_at == "pre" else nn.Identity()
        if config.positions == "learned":
            self.position = nn.Parameter(torch.empty(1, config.max_length, self.width))
            self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start anew what is the trunk's own: its learned positions."""
        if self.config.positions == "learned":
            nn.init.normal_(self.position, std=self.config.init_std)

    @property
    def width(self) -> int:
        first: Residual = self.layers[0].residual
        return first.outer

    def extra_repr(self) -> str:
        return repr(self.config)

    @torch.no_grad()
    def _require_streams(self, residual: str | type[Residual]) -> None:
        """A norm after the residual has the width of a stream, and must meet streams."""
        shape = self.layers[0].residual.expand(torch.zeros(1, 1, self.width)).shape
        if shape[-1] != self.config.width:
            raise ValueError(f"norm_at='post' normalises streams of width {self.config.width}, and "
                             f"the state of {residual!r} has shape {tuple(shape)}; "
                             "use norm_at='pre'")

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 3 or not x.shape[1]:
            raise ValueError("input must be (batch, positions, width), with at least 1 position, "
                             f"got shape {tuple(x.shape)}")
        require_width("input", x, self.width)
        require_length(x.shape[1], self.config.max_length)
        if self.config.positions == "learned":
            x = x + self.position[:, :x.shape[1]]
        state = self.layers[0].residual.expand(x)
        # without gradients, probes look at each state
        joined = (torch.is_grad_enabled() and self.config.norm_at == "pre"
                  and all(layer.residual.joins(state) for layer in self.layers))
        layers, size = list(self.layers), self.recompute or len(self.layers)
        for start in range(0, len(layers), size):
            run = partial(_through, layers[start:start + size], joined)
            state = recomputed(run, state) if self.recompute else run(state)
        state = state.written() if joined else state
        return self.norm(self.layers[-1].residual.reduce(state))


def _through(layers: list[Layer], joined: bool, state: Any) -> Any:
    for layer in layers:
        state = layer(state, joined)
    return state
