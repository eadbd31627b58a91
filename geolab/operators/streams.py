"""How a sublayer F meets n residual streams X: X ← H X + b ⊗ F(aᵀX), a read, a mix and a write (HC section 2, mHC section 4).

Legend: n streams, d features a stream, ... any leading axes (batch, position).
"""

import torch
from torch import Tensor

from geolab._checks import require_square, require_width
from geolab.operators.dispatch import with_kernel
from geolab.operators.precision import in_state_dtype


@with_kernel
@in_state_dtype
def stream_read(x: Tensor, weights: Tensor) -> Tensor:
    """aᵀX = Σᵢ aᵢ xᵢ, what the sublayer reads.

    Arguments:
        x: (..., n, d), the streams.
        weights: a, (..., n); leading axes may be fewer, and broadcast.
    Returns: (..., d).
    Raises: ValueError when the weights aren't one a stream.
    """
    require_width("weights", weights, x.shape[-2])
    # contiguous: weights that are a strided view of a wider table send the product, and its backward, token by token
    return (weights.contiguous().unsqueeze(-2) @ x).squeeze(-2)


@in_state_dtype
def stream_mix(x: Tensor, matrix: Tensor) -> Tensor:
    """H X: stream i becomes Σⱼ Hᵢⱼ xⱼ.

    Arguments:
        x: (..., n, d), the streams.
        matrix: H, (..., n, n); leading axes may be fewer, and broadcast.
    Returns: (..., n, d).
    Raises: ValueError when the matrix isn't one row and one column a stream.
    """
    require_square("matrix", matrix, x.shape[-2])
    return matrix @ x


@in_state_dtype
def stream_read_mix(x: Tensor, weights: Tensor, matrix: Tensor) -> tuple[Tensor, Tensor]:
    """aᵀX and H X, as one product with H under aᵀ: x is read once, and one product less goes back through it.

    Arguments and errors: as for `stream_read` and `stream_mix`.
    Returns: (..., d) and (..., n, d).
    """
    n = x.shape[-2]
    require_width("weights", weights, n)
    require_square("matrix", matrix, n)
    leading = torch.broadcast_shapes(weights.shape[:-1], matrix.shape[:-2])
    rows = torch.cat([weights.expand(*leading, n).unsqueeze(-2), matrix.expand(*leading, n, n)], dim=-2)
    read, mixed = (rows @ x).split([1, n], dim=-2)
    return read.squeeze(-2), mixed


@in_state_dtype
def stream_write(x: Tensor, weights: Tensor, update: Tensor) -> Tensor:
    """X + b ⊗ h: stream i takes up bᵢ h, with h the sublayer's output.

    Arguments:
        x: (..., n, d), the streams.
        weights: b, (..., n); leading axes may be fewer, and broadcast.
        update: h, (..., d).
    Returns: (..., n, d).
    Raises: ValueError when the weights aren't one a stream, or the update has another width than the streams.
    """
    n, d = x.shape[-2:]
    require_width("weights", weights, n)
    require_width("update", update, d)
    # as a matrix product of inner size 1: its backward sums over streams in one pass, a broadcast product's in several
    written = torch.baddbmm(x.reshape(-1, n, d), weights.expand(x.shape[:-1]).contiguous().view(-1, n, 1),
                            update.expand(*x.shape[:-2], d).reshape(-1, 1, d))
    return written.view(x.shape)
