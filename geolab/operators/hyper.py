"""The coefficients of hyper-connections, and the operator between two of their sublayers:

    rows = table + s ⊙ tanh(G norm(xᵢ)), one for each stream i: [bᵢ | aᵢ | row i of A]

The norm is a layer norm of the stream, without weights. H is Aᵀ.

Legend: n streams, d features per stream, ... any leading axes (batch, position).
"""

from collections.abc import Callable

import torch
from torch import Tensor

from geolab import kernels
from geolab.checks import (
    require_leading,
    require_maps,
    require_norm,
    require_number,
    require_option,
    require_state,
    require_width,
    require_write,
)
from geolab.operators.generate import Maps
from geolab.operators.precision import linear, outside_autocast, widened
from geolab.operators.streams import Unwritten, stream_read


def hyper_join(state: Tensor | Unwritten, maps: Maps, eps: float, tanh: bool = True,
               norm: Callable[[Tensor], Tensor] | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Z = H X + b ⊗ h, and what the next sublayer of hyper-connections reads of it: u = aᵀZ.

    Arguments:
        state: X, H, b and h, or a Z that is written already.
        maps: G, (n + 2, d), of the numbers for b, a and A's columns; s, the numbers that multiply
            those for b, and those for a and A; and the table, row after row, (n (n + 2)).
        eps: the guard of the norm.
        tanh: whether the numbers are bounded.
        norm: the norm in front of the next sublayer, if u shall be normalised.
    Returns: Z; u, (..., d); the next rows of H, then b, as in `Unwritten`.
    Raises: as `stream_mix_write`; ValueError for another number of rows, scales or features, an eps
        below 0, or a tanh that isn't True or False.
    """
    require_number("eps", eps, 0)
    require_option("tanh", tanh, (True, False))
    x = state.x if isinstance(state, Unwritten) else state
    _require(state, x, maps, norm)
    n, d = x.shape[-2:]
    if n and d and kernels.joins(x, n * (n + 3), wide=True):
        held = kernels.takes(x, norm)
        given, update = ((state.together(), state.update) if isinstance(state, Unwritten)
                         else (None, None))
        z, u, made = kernels.TWINS["hyper_join"](x, given, update, maps, eps, tanh, held)
        return z, u if norm is None or held else norm(u), made
    z = state.written() if isinstance(state, Unwritten) else x
    write, read, mix = hyper_coefficients(z, maps, eps, tanh)
    made = torch.cat([mix, write.unsqueeze(-2)], dim=-2)
    return z, stream_read(z, read, norm=norm), made


def _require(state: Tensor | Unwritten, x: Tensor, maps: Maps, norm: Callable | None) -> None:
    require_state("x", x, 2)
    require_maps(maps.weight, maps.scale, maps.bias)
    n, d = x.shape[-2:]
    if isinstance(state, Unwritten):
        require_write(x, *state.apart(), state.update)
    require_width("weight", maps.weight, d)
    require_leading("weight", maps.weight, 2, ())
    for name, rows, count in (("weight", maps.weight, n + 2), ("scale", maps.scale, 2),
                              ("bias", maps.bias, n * (n + 2))):
        if len(rows) != count:
            raise ValueError(f"{name} must have {count} rows for {n} streams, got {len(rows)}")
    require_norm(norm, d)


def hyper_coefficients(x: Tensor, maps: Maps, eps: float,
                       tanh: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """b, a, (..., n), and H, (..., n, n), of the streams x, (..., n, d)."""
    (n, d), scale = x.shape[-2:], maps.scale
    with outside_autocast(x):
        normal, _, inverse = torch.native_layer_norm(widened(x), (d,), None, None, eps)
        # the layer norm is 0 where the square of a length has left the range of its dtype
        numbers = linear(normal, maps.weight.to(normal.dtype)).masked_fill(inverse == 0, torch.nan)
        scales = torch.cat([scale[:1], scale[1:].expand(n + 1)])
        rows = maps.bias.view(n, n + 2) + scales * (numbers.tanh() if tanh else numbers)
    write, read, columns = rows.split([1, 1, n], dim=-1)
    return write.squeeze(-1), read.squeeze(-1), columns.mT
