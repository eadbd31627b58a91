"""W (x / rms x): the numbers of a token's coefficients, from its normalised features (mHC section 4).

Legend: ... any leading axes (batch, position), features n · d of a token's streams, outputs n² + 2n.
"""

import torch
from torch import Tensor
from torch.autograd import Function

from geolab.checks import require_width
from geolab.operators.dispatch import with_kernel
from geolab.operators.precision import full_precision


@with_kernel
@full_precision
def rms_linear(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """W (x / rms x), rms x = √(mean x² + eps). The division comes last, as in the paper's kernel: no normalised copy of x is written.

    Arguments:
        x: (..., features).
        weight: W, (outputs, features).
        eps: the norm's guard.
    Returns: (..., outputs), in float32 where x has half precision.
    Raises: ValueError when the weight has another number of features.
    """
    require_width("weight", weight, x.shape[-1])
    return _RmsLinear.apply(x, weight, eps)


def _inverse_rms(x: Tensor, eps: float) -> Tensor:
    """1 / rms x, (..., 1)."""
    return torch.rsqrt(torch.linalg.vector_norm(x, dim=-1, keepdim=True).square() / x.shape[-1] + eps)


class _RmsLinear(Function):
    """y = W x / r, r = rms x. By x its gradient is (Wᵀg − (g·y / features) x / r) / r, in fewer passes over x than a norm's takes.

    What is kept are the arguments and y, so it has second derivatives too.
    """

    @staticmethod
    def forward(x: Tensor, weight: Tensor, eps: float) -> Tensor:
        return (x @ weight.mT) * _inverse_rms(x, eps)

    @staticmethod
    def setup_context(ctx, inputs: tuple[Tensor, Tensor, float], output: Tensor) -> None:
        x, weight, ctx.eps = inputs
        ctx.save_for_backward(x, weight, output)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        x, weight, y = ctx.saved_tensors
        inverse = _inverse_rms(x, ctx.eps)
        along = torch.linalg.vecdot(grad, y).unsqueeze(-1) * inverse.square() / x.shape[-1]
        grad = grad * inverse
        grad_weight = grad.reshape(-1, grad.shape[-1]).mT @ x.reshape(-1, x.shape[-1])
        return (grad @ weight).addcmul_(x, along, value=-1), grad_weight, None
