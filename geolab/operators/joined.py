"""The operators between two sublayers: the write of one, then the generator of the next,

    Z = H X + b ⊗ h        y = W (z / rms z)        then u = aᵀZ, with a from y

A sublayer begins with a read and ends with a write. So with F in between, a network of L sublayers
is one `stream_generate`, L − 1 times `stream_join`, and one `stream_mix_write`, with a
`stream_read` after each of the first two. This is the same function as one operator after the
other. Joined, its kernels form the gradient of Z in one place and never write it. They serve up to
four streams, or eight that aren't mixed, on GPUs with 212 KB of shared memory for a program.
Compiled for Hopper, a thread of the backward pass keeps all but 24 bytes in registers.

Legend: n streams, d features per stream, O outputs of W, ... any leading axes (batch, position).
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from geolab import kernels
from geolab.checks import (
    require_count,
    require_leading,
    require_number,
    require_option,
    require_square,
    require_width,
)
from geolab.operators.birkhoff import ORDERS, sinkhorn
from geolab.operators.generate import rms_linear
from geolab.operators.polytope import mixture
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
                     order: str = "column-row", guard: float = 0.0, write_guard: float = 0.0,
                     corners: Tensor | None = None, read: Tensor | None = None,
                     norm: Norm | None = None) -> tuple[Tensor, ...]:
    """Z = H X + b ⊗ h, what the next sublayer of mHC reads of it, and the H and b of its own write.

    Its logits are s ⊙ y + bias of y = W (z / rms z). Then a = σ(·) + ε, b = 2σ(·) + ε′ and u = aᵀZ.
    H is Sinkhorn's projection of exp(·), or a mixture Σ softmax(·)_k C_k of given matrices, or I.
    In kernels this takes three launches, and seven with its gradient.

    Arguments:
        x: X, (..., n, d).
        given: the rows of H, then b, (..., n + 1, n), or b alone, (..., 1, n), where H = I. None if
            nothing is written: then Z is X.
        update: h, (..., d), or None.
        weight: W, (n² + 2n, n d), whose rows make the logits of a, of b and of the rows of H. With
            `corners` H has as many logits as there are corners, and where H is I it has none.
        scale: s, three numbers that multiply the logits of a, b and H; with two of them H is I.
        bias: a number for each row of W.
        eps: the guard of the norm.
        iterations, order: those of `sinkhorn`.
        guard: ε, added to a, and inside `sinkhorn`.
        write_guard: ε′, added to b.
        corners: the matrices C_k, (K, n, n), without a gradient.
        read: a, (..., n), if another sublayer made it, as in single-pass mHC: then u is read with
            it, and the a of this Z is returned, too.
        norm: the RMS norm in front of the next sublayer, if u shall be normalised.
    Returns: Z; u, (..., d); the next rows of H, then b, as in `given`; and with `read` the next a.
    Raises: as `stream_mix_write`, `rms_linear` and `sinkhorn`; ValueError for another number of
        logits or scales.
    """
    *tokens, n, d = x.shape
    if given is not None:
        require_leading("given", given, 2, tokens)
        require_width("given", given, n)
        if given.shape[-2] > 1:
            require_write(x, *apart(given), update)
        else:
            require_width("update", update, d)
            require_leading("update", update, 1, tokens)
    require_width("weight", weight, n * d)
    require_leading("weight", weight, 2, ())
    still, of_mix = len(scale) == 2, n * n if corners is None else len(corners)
    sizes = (n, n) if still else (n, n, of_mix)
    for name, rows, count in (("weight", weight, sum(sizes)), ("bias", bias, sum(sizes)),
                              ("scale", scale, len(sizes))):
        if len(rows) != count:
            raise ValueError(f"{name} must have {count} rows for {n} streams, got {len(rows)}")
    if corners is not None:
        require_square("corners", corners, n)
    require_count("iterations", iterations)
    require_option("order", order, ORDERS)
    if read is not None:
        require_width("read", read, n)
        require_leading("read", read, 1, tokens)
    require_norm(norm, d)
    require_number("guard", guard, 0)
    require_number("write_guard", write_guard, 0)
    mixed = not still or (given is not None and given.shape[-2] > 1)
    # without features the coefficients are the bias's
    if d and kernels.joins(x, len(weight), mixed):
        held = norm if kernels.holds(x) else None
        z, u, *made = kernels.TWINS["constrained_join"](
            x, given, update, weight, scale, bias, eps, iterations, order, guard, write_guard,
            corners, read, held)
        return z, normed(u, None if held else norm), *made
    z = x if given is None else stream_mix_write(x, *apart(given), update)
    # before the coefficients, so that gradients add up in the order of one operator after the other
    u = None if read is None else stream_read(z, read, norm=norm)
    with outside_autocast(x):
        scales = torch.cat([s.expand(k) for s, k in zip(widened(scale), sizes, strict=True)])
        logits = rms_linear(z.flatten(-2), scales.unsqueeze(-1) * weight, eps) + bias
        made_read, write, *mix = logits.split(sizes, dim=-1)
        made_read = made_read.sigmoid() + guard
        made = (2 * write.sigmoid() + write_guard).unsqueeze(-2)
        if mix and corners is None:
            made = torch.cat([sinkhorn(mix[0].unflatten(-1, (n, n)), iterations, order, eps=guard),
                              made], dim=-2)
        elif mix:
            made = torch.cat([mixture(mix[0], corners), made], dim=-2)
    if u is None:
        return z, stream_read(z, made_read, norm=norm), made
    return z, u, made, made_read


def apart(given: Tensor) -> tuple[Tensor, Tensor]:
    """H and b, of both as `constrained_join` gives them."""
    mix, write = given[..., :-1, :], given[..., -1, :]
    if not mix.shape[-2]:
        mix = torch.eye(given.shape[-1], dtype=given.dtype, device=given.device)
    return mix, write


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
