"""The delta operator A = I − β k kᵀ and the delta update X ← A X + β k vᵀ (DDL eqs 2.3–2.5).

Legend: d features; d_v value channels; ... any leading axes (batch, position).
A state is (..., d), one value channel, or (..., d, d_v); then direction is (..., d), beta (...), and
value (...) or (..., d_v).
"""

import torch
from torch import Tensor
from torch.autograd import Function

from geolab.checks import require_unit, require_width
from geolab.operators.dispatch import with_kernel
from geolab.operators.precision import full_precision, in_state_dtype


@full_precision
def unit_direction(h: Tensor, eps: float = 0.0) -> Tensor:
    """k = h / sqrt(‖h‖² + eps²) (DDL section 4.1): of unit length when eps = 0, slightly shorter otherwise.

    Arguments:
        h: (..., d), any vectors; with eps = 0 none may be zero.
        eps: the guard ε_k against a vanishing h, in units of h; the paper's code takes 1e-5.
    Returns: (..., d).
    """
    return h * torch.rsqrt(torch.linalg.vector_norm(h, dim=-1, keepdim=True).square() + eps**2)


def delta_matrix(direction: Tensor, beta: Tensor | float) -> Tensor:
    """A = I − β k kᵀ (DDL eq. 2.3): eigenvalue 1 − β along k, 1 on its complement (DDL theorem 3.1).

    Arguments:
        direction: (..., d), unit vectors k.
        beta: (...) or a number. 0 is the identity, 1 a projection, 2 a Householder reflection.
    Returns: (..., d, d).
    Raises: ValueError when a direction is not of unit length.
    """
    require_unit(direction)
    beta = torch.as_tensor(beta, dtype=direction.dtype, device=direction.device)
    identity = torch.eye(direction.shape[-1], dtype=direction.dtype, device=direction.device)
    return identity - beta[..., None, None] * direction.unsqueeze(-1) * direction.unsqueeze(-2)


@in_state_dtype
def delta_shortcut(x: Tensor, direction: Tensor, beta: Tensor | float, eps: float | None = None) -> Tensor:
    """A x = x − β (kᵀx) k: the delta update that writes nothing. Arguments and errors as for `delta_update`."""
    return delta_update(x, direction, torch.zeros((), dtype=x.dtype, device=x.device), beta, eps=eps)


@with_kernel
@in_state_dtype
def delta_update(x: Tensor, direction: Tensor, value: Tensor | float, beta: Tensor | float, erase: bool = True,
                 eps: float | None = None) -> Tensor:
    """X + β k (vᵀ − kᵀX): erase the k-component and write v in its place, both at rate β (DDL eq. 2.5).

    The law is defined for any k; what the book proves of it asks for a unit k.

    Arguments:
        x: the state, (..., d) or (..., d, d_v).
        direction: (..., d), k; with eps any h, and k = unit_direction(h, eps), which the kernel doesn't write to memory.
        value: v, (...) for a vector state, (..., d_v) for a matrix state, or a number.
        beta: (...) or a number.
        erase: False leaves out kᵀX: X + β k vᵀ.
        eps: the guard of the normalisation; None takes the direction as it comes.
    Returns: of the shape of x.
    Raises: ValueError when direction and state disagree in features or in the number of axes, or beta has an axis too many.
    """
    beta = torch.as_tensor(beta, dtype=direction.dtype, device=direction.device)
    value = torch.as_tensor(value, dtype=direction.dtype, device=direction.device)
    if eps is not None:
        direction = unit_direction(direction, eps).to(x.dtype)
    if beta.ndim >= direction.ndim:
        raise ValueError(f"beta must be one number a direction, got {tuple(beta.shape)} with direction {tuple(direction.shape)}")
    if x.ndim == direction.ndim:
        require_width("direction", direction, x.shape[-1])
        change = value - torch.linalg.vecdot(direction, x) if erase else value          # v − kᵀx: (...)
        return torch.addcmul(x, (beta * change).unsqueeze(-1), direction)
    if x.ndim == direction.ndim + 1:
        require_width("direction", direction, x.shape[-2])
        change = value - (direction.unsqueeze(-2) @ x).squeeze(-2) if erase else value  # v − kᵀX: (..., d_v)
        return x + direction.unsqueeze(-1) @ (beta.unsqueeze(-1) * change).unsqueeze(-2)
    raise ValueError(f"x must have as many axes as direction (a vector state) or one more (a matrix state), "
                     f"got {tuple(x.shape)} with direction {tuple(direction.shape)}")


@with_kernel
@in_state_dtype
def diagonal_update(x: Tensor, update: Tensor, beta: Tensor, alpha: Tensor) -> Tensor:
    """X + β ⊙ (h − α X): each feature is erased and written at a rate of its own (MGT eq. 7).

    Arguments:
        x, update, beta: X, h and β, (..., d) all.
        alpha: α, one number.
    Returns: (..., d).
    Raises: ValueError when update or beta has another shape than x, or alpha is more than one number.
    """
    for name, tensor in (("update", update), ("beta", beta)):
        if tensor.shape != x.shape:
            raise ValueError(f"{name} must have the shape of x, {tuple(x.shape)}, got {tuple(tensor.shape)}")
    if alpha.numel() != 1:
        raise ValueError(f"alpha must be one number, got shape {tuple(alpha.shape)}")
    return _Diagonal.apply(x, update, beta, alpha)


class _Diagonal(Function):
    """X + β ⊙ (h − α X) in few passes over the state. What is kept are the arguments, so it has second derivatives too."""

    @staticmethod
    def forward(ctx, x: Tensor, update: Tensor, beta: Tensor, alpha: Tensor) -> Tensor:
        ctx.save_for_backward(x, update, beta, alpha)
        return torch.addcmul(x, beta, torch.addcmul(update, x, alpha, value=-1))

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        x, update, beta, alpha = ctx.saved_tensors
        grad_update = grad * beta
        grad_beta = grad * torch.addcmul(update, x, alpha, value=-1)
        return torch.addcmul(grad, grad_update, alpha, value=-1), grad_update, grad_beta, -(grad_update.flatten() @ x.flatten()).view_as(alpha)
