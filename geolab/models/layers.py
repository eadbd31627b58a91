"""The sublayers of the backbone, attention and MLP, and the layer that puts a residual around one.

Each module initialises its own weights, once; nothing overwrites them afterwards.

Legend: B batch, T positions, D width, H heads, E features per head.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from geolab.models.config import TransformerConfig
from geolab.operators.precision import outside_autocast, widened
from geolab.residuals import Normed, Residual, Views
from geolab.residuals.weights import matrix


def make_norm(config: TransformerConfig, width: int | None = None) -> nn.Module:
    """The norm of a sublayer's input, or of `width` features.

    It is PyTorch's own module, which gives 0, or NaN, where float32 can't hold a square: above
    about 1e19.
    """
    D = width or config.width
    return nn.RMSNorm(D, eps=1e-5) if config.norm == "rms" else nn.LayerNorm(D, bias=False)


def fold(weight: Tensor, before: Tensor | None = None, after: Tensor | None = None) -> Tensor:
    """after · weight · before, where None is left out: maps in a row as one map.

    A step then costs one product of two matrices instead of one with all B T tokens. This is less
    work if B T exceeds the hidden features of F.
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


def attention(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    """softmax(q kᵀ / √E) v of (B, H, T, E) each, where position t sees 1 … t if it is causal.

    On a CPU half precision is computed in float32, since PyTorch's backward pass takes longer in
    bfloat16.
    """
    if q.device.type != "cpu":
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    with outside_autocast(q):
        y = F.scaled_dot_product_attention(widened(q), widened(k), widened(v), is_causal=causal)
    return y.to(v.dtype)


class Attention(nn.Module):
    """Multi-head self-attention, causal unless the configuration says otherwise."""

    takes_views = takes_values = True

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.qkv = matrix(config.width, 3 * config.width, config.init_std)
        self.out = matrix(config.width, config.width, config.output_std)
        if config.qk_norm:
            self.q_norm = nn.RMSNorm(config.width // config.heads, eps=1e-5)
            self.k_norm = nn.RMSNorm(config.width // config.heads, eps=1e-5)

    def forward(self, x: Tensor | Views, before: Tensor | None = None,
                after: Tensor | None = None,
                values: Callable[[Tensor], Tensor] | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D): F(x), or after F(before x) with (D, D) maps.

        Of `Views` the queries, keys and values have an x each. With `values` it reads values(V) in
        place of its values V, both (B, T, D), of all heads side by side.
        """
        weight = fold(self.qkv(), before)
        if isinstance(x, Views):
            qkv = torch.cat(list(map(F.linear, x, weight.chunk(3))), dim=-1)
        else:
            qkv = F.linear(x, weight)
        B, T, D = qkv.shape[0], qkv.shape[1], self.config.width
        if values is not None:
            qkv = torch.cat([qkv[..., :2 * D], values(qkv[..., 2 * D:])], dim=-1)
        qkv = qkv.view(B, T, 3, self.config.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)                                  # each (B, H, T, E)
        if self.config.positions == "rope":
            q, k = rotate(q), rotate(k)
        if self.config.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        y = attention(q, k, v, self.config.causal)
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
        return Normed(self.mix, self.norm if self.norm_at == "pre" else None, fused=True,
                      takes_views=getattr(self.mix, "takes_views", False),
                      takes_values=getattr(self.mix, "takes_values", False))

    def forward(self, state: Any, joined: bool = False) -> Any:
        """state -> state. If this layer is `joined` to the next one, the next layer writes the
        state.
        """
        if joined:
            return self.residual.step(state, self.sublayer)
        if self.norm_at == "post":
            return self.residual.normed(state, self.sublayer, self.norm)
        return self.residual(state, self.sublayer)
