"""The coefficients of hyper-connections, and the operator between two of their sublayers:

    rows = table + s ⊙ tanh(G norm(xᵢ)), one for each stream i: [bᵢ | aᵢ | row i of A]

The norm is a layer norm of the stream, without weights. H is Aᵀ.

Legend: n streams, d features per stream, ... any leading axes (batch, position).
"""

import torch
from torch import Tensor

from geolab import kernels
from geolab.checks import require_leading, require_norm, require_width, require_write
from geolab.operators.joined import apart
from geolab.operators.precision import outside_autocast, widened
from geolab.operators.streams import Norm, normed, stream_mix_write, stream_read


def hyper_join(x: Tensor, given: Tensor | None, update: Tensor | None, weight: Tensor,
               scale: Tensor, table: Tensor, eps: float, tanh: bool = True,
               norm: Norm | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Z = H X + b ⊗ h, and what the next sublayer of hyper-connections reads of it: u = aᵀZ.

    Arguments:
        x: X, (..., n, d).
        given: the rows of H, then b, (..., n + 1, n). None if nothing is written: then Z is X.
        update: h, (..., d), or None.
        weight: G, (n + 2, d), of the numbers for b, a and A's columns.
        scale: s, two numbers: that of b, and that of a and A.
        table: (n (n + 2)), row after row.
        eps: the guard of the norm.
        tanh: whether the numbers are bounded.
        norm: the RMS norm in front of the next sublayer, if u shall be normalised.
    Returns: Z; u, (..., d); the next rows of H, then b, as in `given`.
    Raises: as `stream_mix_write`; ValueError for another number of rows, scales or features.
    """
    *tokens, n, d = x.shape
    if given is not None:
        require_leading("given", given, 2, tokens)
        require_width("given", given, n)
        require_write(x, *apart(given), update)
    require_width("weight", weight, d)
    require_leading("weight", weight, 2, ())
    for name, rows, count in (("weight", weight, n + 2), ("scale", scale, 2),
                              ("table", table, n * (n + 2))):
        if len(rows) != count:
            raise ValueError(f"{name} must have {count} rows for {n} streams, got {len(rows)}")
    require_norm(norm, d)
    if d and kernels.joins(x, n * (n + 3)):
        held = norm if kernels.holds(x) else None
        z, u, made = kernels.TWINS["hyper_join"](x, given, update, weight, scale, table, eps, tanh,
                                                 held)
        return z, normed(u, None if held else norm), made
    z = x if given is None else stream_mix_write(x, *apart(given), update)
    write, read, mix = hyper_coefficients(z, weight, scale, table, eps, tanh)
    made = torch.cat([mix, write.unsqueeze(-2)], dim=-2)
    return z, stream_read(z, read, norm=norm), made


def hyper_coefficients(x: Tensor, weight: Tensor, scale: Tensor, table: Tensor, eps: float,
                       tanh: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """b, a, (..., n), and H, (..., n, n), of the streams x, (..., n, d)."""
    n, d = x.shape[-2:]
    with outside_autocast(x):
        normal, _, inverse = torch.native_layer_norm(widened(x), (d,), None, None, eps)
        # the layer norm is 0 where the square of a length has left the range of its dtype
        numbers = (normal @ widened(weight).mT).masked_fill(inverse == 0, torch.nan)
        scales = torch.cat([scale[:1], scale[1:].expand(n + 1)])
        rows = table.view(n, n + 2) + scales * (numbers.tanh() if tanh else numbers)
    write, read, columns = rows.split([1, 1, n], dim=-1)
    return write.squeeze(-1), read.squeeze(-1), columns.mT
