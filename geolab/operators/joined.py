"""The operators between two sublayers: the write of one, then the generator of the next,

    Z = H X + b ⊗ h        y = W (z / rms z)        then u = aᵀZ, with a from y

A sublayer begins with a read and ends with a write. So with F in between, a network of L sublayers
is one `stream_generate`, L − 1 times `stream_join`, and one `stream_mix_write`, with a
`stream_read` after each of the first two. This is the same function as one operator after the
other. Joined, its kernels form the gradient of Z in one place and never write it. They serve up to
four streams on GPUs with 212 KB of shared memory for a program. Compiled for Hopper, a thread of
the backward pass keeps all but 40 bytes in registers.

Legend: n streams, d features per stream, O outputs of W, ... any leading axes (batch, position).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from geolab import kernels
from geolab.checks import require_count, require_leading, require_option, require_width
from geolab.operators.birkhoff import ORDERS, sinkhorn
from geolab.operators.generate import rms_linear
from geolab.operators.precision import outside_autocast, widened
from geolab.operators.streams import (
    Norm,
    normed,
    require_norm,
    require_write,
    stream_mix_write,
    stream_read,
)

PRODUCTS = {"mm", "addmm", "bmm", "baddbmm"}


class Generated(NamedTuple):
    """A state, and the numbers from which the coefficients of the next sublayer are made."""

    state: Tensor      # Z: (..., n, d)
    numbers: Tensor    # y: (..., O)
    ports: tuple = ()  # for the `stream_read` of this state, where a kernel made it


def stream_generate(x: Tensor, weight: Tensor, eps: float) -> Generated:
    """X, and y = W (x / rms x) of all its streams.

    Go on with the state that this returns. It equals X, and the kernel adds up all gradients that
    come back to it.

    Arguments:
        x: X, (..., n, d).
        weight: W, (O, n d).
        eps: the guard of the norm.
    Raises: as `rms_linear`.
    """
    require_width("weight", weight, x.shape[-2] * x.shape[-1])
    require_leading("weight", weight, 2, ())
    if kernels.joins(x, len(weight)):
        return Generated(*kernels.TWINS["stream_generate"](x, weight, eps))
    return Generated(x, rms_linear(x.flatten(-2), weight, eps))


def stream_join(x: Tensor, matrix: Tensor, weights: Tensor, update: Tensor, weight: Tensor,
                eps: float) -> Generated:
    """Z = H X + b ⊗ h, and y = W (z / rms z) of all its streams.

    Arguments:
        x, matrix, weights, update: X, H, b and h, as for `stream_mix_write`.
        weight, eps: those of the next sublayer, as for `stream_generate`.
    Raises: as `stream_mix_write` and `rms_linear`.
    """
    require_write(x, matrix, weights, update)
    require_width("weight", weight, x.shape[-2] * x.shape[-1])
    require_leading("weight", weight, 2, ())
    if kernels.joins(x, len(weight)):
        return Generated(*kernels.TWINS["stream_join"](x, matrix, weights, update, weight, eps))
    z = stream_mix_write(x, matrix, weights, update)
    return Generated(z, rms_linear(z.flatten(-2), weight, eps))


def constrained_join(x: Tensor, given: Tensor | None, update: Tensor | None, weight: Tensor,
                     scale: Tensor, bias: Tensor, eps: float, iterations: int = 20,
                     order: str = "column-row", norm: Norm | None = None) -> tuple[
                         Tensor, Tensor, Tensor]:
    """Z = H X + b ⊗ h, what the next sublayer of mHC reads of it, and the H and b of its own write.

    Its logits are s ⊙ y + bias of y = W (z / rms z). Then a = σ(·), b = 2σ(·) and H is Sinkhorn's
    projection of exp(·), and u = aᵀZ. In kernels this takes three launches, and seven with its
    gradient.

    Arguments:
        x: X, (..., n, d).
        given: the rows of H, then b, (..., n + 1, n). None if nothing is written: then Z is X.
        update: h, (..., d), or None.
        weight: W, (n² + 2n, n d), whose rows make the logits of a, of b and of the rows of H.
        scale: s, three numbers that multiply those of a, b and H.
        bias: (n² + 2n).
        eps: the guard of the norm.
        iterations, order: those of `sinkhorn`.
        norm: the RMS norm in front of the next sublayer, if u shall be normalised.
    Returns: Z; u, (..., d); and the next rows of H, then b, (..., n + 1, n).
    Raises: as `stream_mix_write`, `rms_linear` and `sinkhorn`; ValueError for another number of
        logits.
    """
    *tokens, n, d = x.shape
    if given is not None:
        require_leading("given", given, 2, tokens)
        require_write(x, given[..., :n, :], given[..., n, :], update)
    require_width("weight", weight, n * d)
    require_leading("weight", weight, 2, ())
    for name, rows, count in (("weight", weight, n * (n + 2)), ("bias", bias, n * (n + 2)),
                              ("scale", scale, 3)):
        if len(rows) != count:
            raise ValueError(f"{name} must have {count} rows for {n} streams, got {len(rows)}")
    require_count("iterations", iterations)
    require_option("order", order, ORDERS)
    require_norm(norm, d)
    if d and kernels.joins(x, len(weight)):  # without features the coefficients are the bias's
        held = norm if kernels.holds(x) else None
        z, u, made = kernels.TWINS["constrained_join"](x, given, update, weight, scale, bias, eps,
                                                       iterations, order, held)
        return z, normed(u, None if held else norm), made
    z = x if given is None else stream_mix_write(x, given[..., :n, :], given[..., n, :], update)
    sizes = (n, n, n * n)
    with outside_autocast(x):
        scales = torch.cat([s.expand(k) for s, k in zip(widened(scale), sizes, strict=True)])
        logits = rms_linear(z.flatten(-2), scales.unsqueeze(-1) * weight, eps) + bias
        read, write, mix = logits.split(sizes, dim=-1)
        mix = sinkhorn(mix.unflatten(-1, (n, n)), iterations, order)
        made = torch.cat([mix, 2 * write.sigmoid().unsqueeze(-2)], dim=-2)
    return z, stream_read(z, read.sigmoid(), norm=norm), made


def recomputed(run: Callable, *inputs: Any) -> Any:
    """Return run(*inputs) without keeping its states: the backward pass forms them again.

    F's products of matrices and its attention are kept. Everything else runs again, in the mode of
    `kernels.use` of the forward pass. This is mHC's recomputation (section 4.3.2) of a block of
    sublayers. It costs the block's forward traffic once more, 3n + 2 vectors per sublayer.
    DeepSeek's TileKernels also keep the coefficients and hold the state on chip, so that they move
    n + 2. Without kernels the products that form a state are kept.
    """
    mode = kernels.mode()

    def run_again(*inputs: Any) -> Any:
        with kernels.use(mode):
            return run(*inputs)

    return checkpoint(run_again, *inputs, use_reentrant=False, context_fn=partial(
        create_selective_checkpoint_contexts, _kept))


def _kept(_, op: Any, *args: Any, **options: Any) -> bool:
    name = op.overloadpacket.__name__
    return op.namespace == "aten" and (name in PRODUCTS or "attention" in name)
