"""A sublayer reads a mean of sources that depends on them: attention residuals.

    αₛ ∝ exp(wᵀ xₛ / rms xₛ)    u = Σ αₛ xₛ

Legend: n places, the first k of which hold sources, d features, ... any leading axes.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from geolab import kernels
from geolab.checks import (
    require_count,
    require_leading,
    require_number,
    require_option,
    require_real,
    require_state,
    require_width,
)
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
    Raises: ValueError for another width or number of sources, or an unknown option; TypeError for
        an x whose numbers aren't floating-point.
    """
    k, served = _asked(x, query, how, sources)
    if served:
        return kernels.TWINS["attend"](x, query, k, *served)
    if sources is None:
        return stream_read(x, attention(x, query, how))
    return stream_read(x, F.pad(attention(x[..., :k, :], query, how), (0, x.shape[-2] - k)))


def attend_on(x: Tensor, query: Tensor, how: Attention, sources: int) -> tuple[Tensor, Tensor]:
    """x and u, where later sublayers read the same sources.

    Go on with the x that this returns. It equals x, and the kernel adds up all gradients that come
    back to it.

    Arguments, errors: those of `attend`.
    """
    k, served = _asked(x, query, how, sources)
    if served:
        return kernels.TWINS["attend_on"](x, query, k, *served)
    return x, attend(x, query, how, sources)


def _asked(x: Tensor, query: Tensor, how: Attention,
           sources: int | None) -> tuple[int, tuple | None]:
    """k, and the options of the kernel, if it serves x."""
    require_state("x", x, 2)
    require_real(query=query)
    n, d = x.shape[-2:]
    require_width("query", query, d)
    require_leading("query", query, 1, ())
    k = n if sources is None else sources
    require_count("sources", k, min(n, 1))
    if k > n:
        raise ValueError(f"sources must be at most the {n} places of x, got {k}")
    if how.eps is not None:
        require_number("eps", how.eps, 0)
    for name in ("scaled", "summed", "normed"):
        require_option(name, getattr(how, name), (True, False))
    if not kernels.serves(x) or not 0 < d <= kernels.MOST_HELD[0]:
        return k, None
    wide = torch.promote_types(x.dtype, torch.float32)
    return k, (torch.finfo(wide).eps if how.eps is None else how.eps,
               d**-0.5 if how.scaled else 1.0, float(k) if how.summed else 1.0, how.normed)


class _Put(torch.autograd.Function):
    """x, with a source written to a place of its memory that no reader of x before has read."""

    @staticmethod
    def forward(ctx, x: Tensor, source: Tensor, place: int) -> Tensor:
        ctx.place, ctx.dtype = place, source.dtype
        x.data.select(-2, place).copy_(source)  # autograd counts no change of what it has kept
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        # what was in that place before isn't read, so its gradient goes nowhere
        return grad, grad.select(-2, ctx.place).to(ctx.dtype), None


def place_source(x: Tensor, source: Tensor, place: int, own: bool) -> Tensor:
    """x with a new source, (..., n, d).

    Arguments:
        x: (..., n, d).
        source: (..., d).
        place: where to write it, from 0.
        own: whether nobody else has the memory of x, and nobody has read that place. Where kernels
            run it is then written there, and the other places aren't touched.
    """
    if own and kernels.serves(x) and not torch.compiler.is_compiling():
        return _Put.apply(x, source, place)
    return x.select_scatter(source, -2, place)


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
