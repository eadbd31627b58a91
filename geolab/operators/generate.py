"""W (x / rms x): the numbers of a token's coefficients, from its normalised features (mHC section 4).

Legend: ... any leading axes (batch, position), features n · d of a token's streams, outputs n² + 2n.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from geolab._checks import require_width
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
    mean_square = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square() / x.shape[-1]
    return F.linear(x, weight) * torch.rsqrt(mean_square + eps)
