"""How a sublayer F meets n residual streams X: X ← H X + b ⊗ F(aᵀX), a read, then a mix and a write (HC section 2, mHC section 4).

Legend: n streams, d features a stream, ... any leading axes (batch, position).
"""

import torch
from torch import Tensor

from geolab.checks import require_square, require_width
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
    # contiguous, here and below: strided views of a wider table send products, and their backward, token by token
    return (weights.contiguous().unsqueeze(-2) @ x).squeeze(-2)


@with_kernel
@in_state_dtype
def stream_mix(x: Tensor, matrix: Tensor) -> Tensor:
    """H X: stream i becomes Σⱼ Hᵢⱼ xⱼ.

    Arguments:
        x: (..., n, d), the streams.
        matrix: H, (..., n, n), or (..., m, n) for m sums of them; leading axes may be fewer, and broadcast.
    Returns: (..., n, d), or (..., m, d).
    Raises: ValueError when the matrix isn't one column a stream.
    """
    require_width("matrix", matrix, x.shape[-2])
    return matrix @ x


@with_kernel
@in_state_dtype
def stream_mix_write(x: Tensor, matrix: Tensor, weights: Tensor, update: Tensor) -> Tensor:
    """H X + b ⊗ h: stream i becomes Σⱼ Hᵢⱼ xⱼ and takes up bᵢ h, with h the sublayer's output.

    Arguments:
        x: (..., n, d), the streams.
        matrix: H, (..., n, n); leading axes may be fewer, and broadcast.
        weights: b, (..., n); leading axes may be fewer, and broadcast.
        update: h, (..., d).
    Returns: (..., n, d).
    Raises: ValueError when the matrix isn't one row and one column a stream, the weights aren't one a stream, or the update
            has another width than the streams.
    """
    n, d = x.shape[-2:]
    require_square("matrix", matrix, n)
    require_width("weights", weights, n)
    require_width("update", update, d)
    tokens = x.shape[:-2]
    return _MixWrite.apply(x, matrix.expand(*tokens, n, n).contiguous(), weights.expand(*tokens, n).contiguous(), update.expand(*tokens, d))


class _MixWrite(torch.autograd.Function):
    """H X + b ⊗ h of each token. Its backward is four products; that of a sum of products takes more passes over the streams."""

    @staticmethod
    def forward(x, matrix, weights, update):
        return (matrix @ x).addcmul_(weights.unsqueeze(-1), update.unsqueeze(-2))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, matrix, weights, update = ctx.saved_tensors
        return (matrix.mT @ grad, grad @ x.mT,
                (update.unsqueeze(-2) @ grad.mT).squeeze(-2),  # row by matrix: the other way round it takes twice as long
                (weights.unsqueeze(-2) @ grad).squeeze(-2))
