"""A sublayer reads a mean of sources that depends on them: attention residuals.

    αₛ ∝ exp(wᵀ xₛ / rms xₛ)    u = Σ αₛ xₛ

Legend: n places, the first k of which hold sources, d features, ... any leading axes.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from geolab import kernels
from geolab.checks import require_count, require_leading, require_number, require_width
from geolab.operators.precision import outside_autocast, size, widened
from geolab.operators.streams import stream_read


class Attention(NamedTuple):
    """The options by which the sources are weighed.

    Arguments:
        eps: the guard inside rms x; None is that of the dtype.
        scaled: whether the logits are divided by √d.
        summed: whether the weights sum to k, and not to 1.
        normed: whether u sums xₛ / rms xₛ.
    """

    eps: float | None = None
    scaled: bool = False
    summed: bool = False
    normed: bool = False


def attend(x: Tensor, query: Tensor, how: Attention, sources: int | None = None) -> Tensor:
    """u, (..., d), in the dtype of x.

    Arguments:
        x: (..., n, d); what lies behind the sources isn't read.
        query: w, (d).
        sources: k, from 1 to n; None is n.
    Raises: ValueError for another width or number of sources.
    """
    n, d = x.shape[-2:]
    require_width("query", query, d)
    require_leading("query", query, 1, ())
    k = n if sources is None else sources
    require_count("sources", k, min(n, 1))
    if k > n:
        raise ValueError(f"sources must be at most the {n} places of x, got {k}")
    if how.eps is not None:
        require_number("eps", how.eps, 0)
    if kernels.serves(x) and 0 < d <= kernels.MOST_HELD[0]:
        wide = torch.promote_types(x.dtype, torch.float32)
        return kernels.TWINS["attend"](
            x, query, k, torch.finfo(wide).eps if how.eps is None else how.eps,
            d**-0.5 if how.scaled else 1.0, float(k) if how.summed else 1.0, how.normed)
    if sources is None:
        return stream_read(x, attention(x, query, how))
    return stream_read(x, F.pad(attention(x[..., :k, :], query, how), (0, n - k)))


def attention(x: Tensor, query: Tensor, how: Attention) -> Tensor:
    """The weights of sources x, (..., k, d), in u: (..., k)."""
    x = widened(x)
    eps = torch.finfo(x.dtype).eps if how.eps is None else how.eps
    own = size(x, eps**0.5)
    with outside_autocast(x):
        x = x / own
        inverse = (x.square().mean(-1) + (eps * own.squeeze(-1)**-2 if eps else 0.0)).rsqrt()
        logits = inverse * (x @ query.to(x.dtype))
    weights = (logits / x.shape[-1]**0.5 if how.scaled else logits).softmax(-1)
    if how.summed:
        weights = x.shape[-2] * weights
    return inverse / own.squeeze(-1) * weights if how.normed else weights
