"""The coefficients of JPmHC, and the operator between two of its sublayers:

    a = mean of the rows of softmax(A / τ)    b = s · row sums of softmax(Bᵀ / τ)ᵀ    H ≈ a rotation

A, B and C are the n² logits W norm(z) + bias each, and H is a Cayley transform of C − Cᵀ.

Legend: n streams, d features per stream, ... any leading axes (batch, position).
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from geolab import kernels
from geolab.checks import (
    require_count,
    require_leading,
    require_maps,
    require_norm,
    require_number,
    require_option,
    require_real,
    require_state,
    require_width,
    require_write,
)
from geolab.operators.cayley import cayley_iterated, cayley_skew4, skew
from geolab.operators.generate import Maps
from geolab.operators.precision import linear, outside_autocast, widened
from geolab.operators.streams import Unwritten, stream_read


@dataclass(frozen=True)
class Turn:
    """The options by which a, b and H are made of their logits.

    Arguments:
        steps, alpha: those of `cayley_iterated`.
        temperature: τ.
        eps: the guard of the layer norm.
        exact: whether H is the limit of the steps, `cayley_skew4`, for four streams.
    Raises: ValueError for a number outside its range, and for an exact that isn't True or False.
    """

    steps: int = 2
    alpha: float = 0.1
    temperature: float = 1.0
    eps: float = 1e-5
    exact: bool = False

    def __post_init__(self):
        require_count("steps", self.steps, 1)
        for name in ("alpha", "temperature"):
            require_number(name, getattr(self, name), 0, strict=True)
        require_number("eps", self.eps, 0)
        require_option("exact", self.exact, (True, False))

    def matrix(self, w: Tensor) -> Tensor:
        """H of the skew-symmetric W = C − Cᵀ: (..., n, n) -> (..., n, n)."""
        if self.exact:
            return cayley_skew4(-self.alpha / 2 * w)
        return cayley_iterated(w, self.steps, self.alpha)


def jpmhc_join(state: Tensor | Unwritten, maps: Maps, affine: tuple[Tensor, Tensor], turn: Turn,
               norm: Callable[[Tensor], Tensor] | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Z = H X + b ⊗ h, and what the next sublayer of JPmHC reads of it: u = aᵀZ.

    Arguments:
        state: X, H, b and h, or a Z that is written already.
        maps: W, (3n², n d), for A, B and C; s, one number; and the bias, (3n²).
        affine: the weight and the bias of the layer norm of all n d features.
        norm: the norm in front of the next sublayer, if u shall be normalised.
    Returns: Z; u, (..., d); the next rows of H, then b, as in `Unwritten`.
    Raises: as `stream_mix_write`; ValueError for another number of rows, scales or features, or of
        streams, where the turn is exact.
    """
    x = state.x if isinstance(state, Unwritten) else state
    require_state("x", x, 2)
    require_maps(maps.weight, maps.scale, maps.bias)
    n, d = x.shape[-2:]
    if isinstance(state, Unwritten):
        require_write(x, *state.apart(), state.update)
    for name, tensor in (("weight", maps.weight), ("affine", affine[0]), ("affine", affine[1])):
        require_real(**{name: tensor})
        require_width(name, tensor, n * d)
    require_leading("weight", maps.weight, 2, ())
    for tensor in affine:
        require_leading("affine", tensor, 1, ())
    for name, rows, count in (("weight", maps.weight, 3 * n * n), ("scale", maps.scale, 1),
                              ("bias", maps.bias, 3 * n * n)):
        if len(rows) != count:
            raise ValueError(f"{name} must have {count} rows for {n} streams, got {len(rows)}")
    require_norm(norm, d)
    if turn.exact and n != 4:
        raise ValueError(f"state must have 4 streams where the turn is exact, got {n}")
    held_in_registers = turn.exact or turn.steps <= MOST_STEPS
    if n and d and held_in_registers and kernels.joins(x, 3 * n * n + 1, wide=True):
        held = kernels.takes(x, norm)
        given, update = ((state.together(), state.update) if isinstance(state, Unwritten)
                         else (None, None))
        with outside_autocast(x):
            z, u, made = kernels.TWINS["jpmhc_join"](x, given, update, maps, affine, turn, held)
        return z, u if norm is None or held else norm(u), made
    z = state.written() if isinstance(state, Unwritten) else x
    with outside_autocast(x):
        wide = widened(z.flatten(-2))
        normal, _, inverse = torch.native_layer_norm(wide, (n * d,), affine[0].to(wide.dtype),
                                                     affine[1].to(wide.dtype), turn.eps)
        logits = linear(normal, maps.weight.to(wide.dtype), maps.bias.to(wide.dtype))
        # the layer norm is 0 where the square of a length has left the range of its dtype
        logits = logits.masked_fill(inverse == 0, torch.nan)
        read, write, mix = (part.unflatten(-1, (n, n)) for part in logits.chunk(3, dim=-1))
        mix = turn.matrix(skew(mix))
        read, write = shares(read, write, maps.scale, turn.temperature)
    made = torch.cat([mix, write.unsqueeze(-2)], dim=-2)
    return z, stream_read(z, read, norm=norm), made


MOST_STEPS = 4  # a thread of the backward pass holds the matrix of each step


def shares(read: Tensor, write: Tensor, scale: Tensor | float,
           temperature: float) -> tuple[Tensor, Tensor]:
    """a and b, (..., n), of their logits, (..., n, n)."""
    return ((read / temperature).softmax(-1).mean(-2),
            scale * (write / temperature).softmax(-2).sum(-1))
