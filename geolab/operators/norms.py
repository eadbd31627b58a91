"""x / √(mean x² + ε), and the same of x − mean x: PyTorch's norms, at every size of x.

PyTorch adds up squares, which leave the range of float32 above 1e19, and then gives 0. So a vector
whose largest |number| is above 2¹⁶ is first divided, so that its largest |number| is 2¹⁶. No norm
sees that factor, and ε is nothing beside 2³². Other vectors stay as they are, with all their bits.
A vector with an infinite number gives NaN.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.operators.precision import MOST


def rms_norm(x: Tensor, eps: float | None = None) -> Tensor:
    """x / √(mean x² + eps), (..., d) -> (..., d). None is the dtype's own eps."""
    return F.rms_norm(bounded(x), x.shape[-1:], eps=eps)


def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-5) -> Tensor:
    """(x − mean x) / √(var x + eps) ⊙ weight + bias, (..., d) -> (..., d)."""
    return F.layer_norm(bounded(x), x.shape[-1:], weight, bias, eps)


def bounded(x: Tensor) -> Tensor:
    """x / max(1, max |x| / 2¹⁶) of each vector, (..., d), d ≥ 1. The factor is a constant for
    autograd.
    """
    largest = torch.linalg.vector_norm(x.detach(), torch.inf, dim=-1, keepdim=True)
    return x / (largest / MOST).clamp(min=1).to(x.dtype)
