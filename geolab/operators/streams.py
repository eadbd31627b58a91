"""A sublayer F reads, mixes and writes n residual streams X: X ← H X + b ⊗ F(aᵀX).

A read comes first, then a mix and a write (HC section 2, mHC section 4). A function whose name ends
in `_reference` is the operator's equation in PyTorch: it expects shapes that fit, and no autocast.

Legend: n streams, d features per stream, ... any leading axes (batch, position).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from geolab import kernels
from geolab.checks import (
    require_leading,
    require_norm,
    require_real,
    require_state,
    require_width,
    require_write,
)
from geolab.operators.precision import Product, outside_autocast


class Norm(NamedTuple):
    """An RMS norm, γ ⊙ u / √(mean u² + eps)."""

    weight: Tensor  # γ: (d)
    eps: float

    def __call__(self, u: Tensor) -> Tensor:
        return F.rms_norm(u, u.shape[-1:], self.weight, self.eps)


class Unwritten(NamedTuple):
    """A state H X + b ⊗ h before it is written, so that the next sublayer can write and read it at
    once. Without H and b it is x + h.
    """

    x: Tensor       # X: (..., n, d); x: (..., d)
    update: Tensor  # h: (..., d)
    given: Tensor | tuple[Tensor, Tensor] | None  # H and b; the rows of H above b, where one
    #                        operator made them; b alone, (..., 1, n), where H = I

    def written(self) -> Tensor:
        """(..., n, d), or (..., d)."""
        if self.given is None:
            return self.x + self.update
        return stream_mix_write(self.x, *self.apart(), self.update)

    def apart(self) -> tuple[Tensor, Tensor]:
        """H, (..., n, n), and b, (..., n)."""
        if isinstance(self.given, tuple):
            return self.given
        if self.given is not None and self.given.ndim < 2:
            require_leading("given", self.given, 2, self.x.shape[:-2])
        mix, write = self.given[..., :-1, :], self.given[..., -1, :]
        if not mix.shape[-2]:
            mix = torch.eye(write.shape[-1], dtype=write.dtype, device=write.device)
        return mix, write

    def together(self) -> Tensor | None:
        """The rows of H above b, (..., n + 1, n), or b alone; None without both."""
        if isinstance(self.given, tuple):
            mix, write = self.given
            return torch.cat([mix, write.unsqueeze(-2)], dim=-2)
        return self.given


def stream_read(x: Tensor, weights: Tensor, ports: tuple = (),
                norm: Callable[[Tensor], Tensor] | None = None) -> Tensor:
    """aᵀX = Σᵢ aᵢ xᵢ, the sublayer's input, or its norm.

    Arguments:
        x: (..., n, d), the streams.
        weights: a, (..., n); leading axes may be fewer, and broadcast.
        ports: those of `Generated`, where x is its state. They change no result: through them the
            kernel that made x forms the gradient of x.
        norm: the norm in front of the sublayer. The kernel takes an RMS norm in the same pass.
    Returns: (..., d), in the dtype of x.
    Raises: ValueError unless there is one weight per stream, the leading axes of weights broadcast
        to those of x, and a `Norm` has d weights; TypeError for complex weights, or an x whose
        numbers aren't floating-point.
    """
    require_state("x", x, 2)
    require_real(weights=weights)
    if weights.shape != x.shape[:-1] or isinstance(norm, Norm):
        _require_read(x, weights, norm)
    held = None
    if kernels.serves(x, x.shape[-2]):
        held = kernels.takes(x, norm)
        u = kernels.TWINS["stream_read"](x, weights, ports, held)
    else:
        by_hand = not kernels.transformed()
        with outside_autocast(x):
            u = stream_read_reference(x, weights, by_hand)
    return u if norm is None or held else norm(u)


def stream_read_reference(x: Tensor, weights: Tensor, by_hand: bool) -> Tensor:
    # contiguous, here and below: strided views of a wider table send products, and their backward,
    # token by token
    weights = weights.to(x.dtype).contiguous()
    return (Product.apply if by_hand else torch.matmul)(weights.unsqueeze(-2), x).squeeze(-2)


def _require_read(x: Tensor, weights: Tensor, norm: Callable | None) -> None:
    require_width("weights", weights, x.shape[-2])
    require_leading("weights", weights, 1, x.shape[:-2])
    require_norm(norm, x.shape[-1])


def stream_write_read(state: Tensor | Unwritten, weights: Tensor,
                      norm: Callable[[Tensor], Tensor] | None = None) -> tuple[Tensor, Tensor]:
    """Z = H X + b ⊗ h, and what the next sublayer reads of Z. Its weights a don't depend on Z.

    Arguments:
        state: X, H, b and h, or a Z that is written already.
        weights, norm: a and the norm, as for `stream_read`.
    Returns: Z; aᵀZ, (..., d), or its norm.
    Raises: as `stream_mix_write` and `stream_read`.
    """
    if isinstance(state, Unwritten):
        x = state.x
        require_state("x", x, 2)
        require_write(x, *state.apart(), state.update)
        require_real(weights=weights)
        if kernels.serves(x, x.shape[-2]):
            _require_read(x, weights, norm)
            held = kernels.takes(x, norm)
            z, u = kernels.TWINS["stream_write_read"](x, state.together(), state.update, weights,
                                                      held)
            return z, u if norm is None or held else norm(u)
        state = state.written()
    return state, stream_read(state, weights, norm=norm)


def stream_mix(x: Tensor, matrix: Tensor) -> Tensor:
    """H X: stream i becomes Σⱼ Hᵢⱼ xⱼ.

    Arguments:
        x: (..., n, d), the streams.
        matrix: H, (..., n, n), or (..., m, n) for m sums of them; leading axes may be fewer, and
            broadcast.
    Returns: (..., n, d), or (..., m, d), in the dtype of x.
    Raises: ValueError unless the matrix has one column per stream, and its leading axes broadcast
        to those of x; TypeError for a complex matrix, or an x whose numbers aren't floating-point.
    """
    require_state("x", x, 2)
    require_real(matrix=matrix)
    n = x.shape[-2]
    require_width("matrix", matrix, n)
    require_leading("matrix", matrix, 2, x.shape[:-2])
    if kernels.serves(x, n) and matrix.shape[-2] == n:
        return kernels.TWINS["stream_mix"](x, matrix)
    product = torch.matmul if kernels.transformed() else Product.apply
    with outside_autocast(x):
        return product(matrix.to(x.dtype), x)


def stream_write(x: Tensor, weights: Tensor, update: Tensor) -> Tensor:
    """X + b ⊗ h: stream i becomes xᵢ + bᵢ h, with h the sublayer's output.

    Arguments:
        x, weights, update: X, b and h, as for `stream_mix_write`.
    Returns: (..., n, d), in the dtype of x.
    Raises: as `stream_mix_write`.
    """
    require_state("x", x, 2)
    require_real(weights=weights, update=update)
    *tokens, n, d = x.shape
    require_width("weights", weights, n)
    require_width("update", update, d)
    require_leading("weights", weights, 1, tokens)
    require_leading("update", update, 1, tokens)
    if kernels.serves(x, n):
        return kernels.TWINS["stream_write"](x, weights, update)
    weights, update = weights.to(x.dtype), update.to(x.dtype)
    return x + weights.unsqueeze(-1) * update.unsqueeze(-2)


def stream_mix_write(x: Tensor, matrix: Tensor, weights: Tensor, update: Tensor) -> Tensor:
    """H X + b ⊗ h: stream i becomes Σⱼ Hᵢⱼ xⱼ + bᵢ h, with h the sublayer's output.

    Arguments:
        x: (..., n, d), the streams.
        matrix: H, (..., n, n); leading axes may be fewer, and broadcast.
        weights: b, (..., n); leading axes may be fewer, and broadcast.
        update: h, (..., d).
    Returns: (..., n, d), in the dtype of x.
    Raises: ValueError unless the matrix has one row and one column per stream, there is one weight
        per stream, the update has the width of the streams, and the leading axes of all three
        broadcast to those of x; TypeError for complex coefficients, or an x whose numbers aren't
        floating-point.
    """
    expected = x.shape[:-1] + x.shape[-2:-1], x.shape[:-1], x.shape[:-2] + x.shape[-1:]
    if ((matrix.shape, weights.shape, update.shape) != expected
            or not all(t.is_floating_point() for t in (x, matrix, weights, update))):
        require_state("x", x, 2)
        require_write(x, matrix, weights, update)
    if kernels.serves(x, x.shape[-2]):
        return kernels.TWINS["stream_mix_write"](x, matrix, weights, update)
    by_hand = not kernels.transformed()
    with outside_autocast(x):
        return stream_mix_write_reference(x, matrix, weights, update, by_hand)


def stream_mix_write_reference(x: Tensor, matrix: Tensor, weights: Tensor, update: Tensor,
                               by_hand: bool) -> Tensor:
    *tokens, n, d = x.shape
    matrix = matrix.to(x.dtype).expand(*tokens, n, n).contiguous()
    weights = weights.to(x.dtype).expand(*tokens, n).contiguous()
    update = update.to(x.dtype).expand(*tokens, d)
    return (_MixWrite.apply if by_hand else _mix_write)(x, matrix, weights, update)


def _mix_write(x: Tensor, matrix: Tensor, weights: Tensor, update: Tensor) -> Tensor:
    # Not in place: a result that is changed in place has a gradient of zeros if PyTorch 2.11
    # compiles this
    return torch.addcmul(matrix @ x, weights.unsqueeze(-1), update.unsqueeze(-2))


class _MixWrite(torch.autograd.Function):
    """H X + b ⊗ h for each token, with a backward of four products.

    Autograd takes more passes over the streams. With autograd, a training step of E-MHC-Geo's
    stream variant is 13 % longer, and with torch.baddbmm 7 %.
    """

    @staticmethod
    def forward(ctx, x, matrix, weights, update):
        ctx.save_for_backward(x, matrix, weights, update)
        return _mix_write(x, matrix, weights, update)

    @staticmethod
    def backward(ctx, grad):
        x, matrix, weights, update = ctx.saved_tensors
        with outside_autocast(grad):
            # row by matrix: the other way round it takes twice as long
            by_weights = (update.unsqueeze(-2) @ grad.mT).squeeze(-2)
            by_update = (weights.unsqueeze(-2) @ grad).squeeze(-2)
            return matrix.mT @ grad, grad @ x.mT, by_weights, by_update
