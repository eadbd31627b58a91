"""The operators between two sublayers: the write of one, then the generator of the next,

    Z = H X + b ⊗ h        y = W (z / rms z)        then u = aᵀZ, with a from y

A sublayer begins with a read and ends with a write. So with F in between, a network of L sublayers
is one `stream_generate`, L − 1 times `stream_join`, and one `stream_mix_write`, with a
`stream_read` after each of the first two. This is the same function as one operator after the
other. Joined, its kernels form the gradient of Z in one place and never write it. They serve up to
four streams, on GPUs with 212 KB of shared memory for a program; those of `constrained_join` up to
eight, where they write that gradient if the streams are mixed.
Compiled for Hopper, a thread of the backward pass keeps all but 24 bytes in registers.

Legend: n streams, d features per stream, O outputs of W, ... any leading axes (batch, position).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from geolab import kernels
from geolab.checks import (
    require_count,
    require_leading,
    require_maps,
    require_number,
    require_option,
    require_real,
    require_square,
    require_state,
    require_width,
    require_write,
)
from geolab.operators.birkhoff import ORDERS, sinkhorn, sinkhorn_reference
from geolab.operators.generate import Maps, rms_linear, rms_linear_reference
from geolab.operators.polytope import mixture
from geolab.operators.precision import outside_autocast
from geolab.operators.streams import (
    Norm,
    Unwritten,
    stream_mix_write,
    stream_mix_write_reference,
    stream_read,
    stream_read_reference,
)

PRODUCTS = {"mm", "addmm", "bmm", "baddbmm"}


class Generated(NamedTuple):
    """A state, and the numbers from which the coefficients of the next sublayer are made."""

    state: Tensor      # Z: (..., n, d)
    numbers: Tensor    # y: (..., O)
    ports: tuple = ()  # for the `stream_read` of this state, where a kernel made it


@dataclass(frozen=True)
class Form:
    """The form of the coefficients: a = σ(·) + ε, b = 2σ(·) + ε′ and H = Sinkhorn(exp ·).

    Arguments:
        iterations, order: those of `sinkhorn`.
        eps: ε, added to a, and inside `sinkhorn`.
        write_eps: ε′, added to b.
        norm_eps: the guard of rms z.
    Raises: ValueError for a number outside its range, or an unknown order.
    """

    iterations: int = 20
    order: str = "column-row"
    eps: float = 0.0
    write_eps: float = 0.0
    norm_eps: float = 1e-20

    def __post_init__(self):
        require_count("iterations", self.iterations)
        require_option("order", self.order, ORDERS)
        for name in ("norm_eps", "eps", "write_eps"):
            require_number(name, getattr(self, name), 0)


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
    _require_generator(x, weight, eps)
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
    _require_generator(x, weight, eps)
    if kernels.joins(x, len(weight)):
        require_write(x, matrix, weights, update)
        return Generated(*kernels.TWINS["stream_join"](x, matrix, weights, update, weight, eps))
    z = stream_mix_write(x, matrix, weights, update)
    return Generated(z, rms_linear(z.flatten(-2), weight, eps))


def _require_generator(x: Tensor, weight: Tensor, eps: float) -> None:
    require_state("x", x, 2)
    require_real(weight=weight)
    require_number("eps", eps, 0)
    require_width("weight", weight, x.shape[-2] * x.shape[-1])
    require_leading("weight", weight, 2, ())


def constrained_join(state: Tensor | Unwritten, maps: Maps, form: Form, read: Tensor | None = None,
                     norm: Callable[[Tensor], Tensor] | None = None) -> tuple[Tensor, ...]:
    """Z = H X + b ⊗ h, what the next sublayer of mHC reads of it, and the H and b of its own write.

    Its a, b and H are made of Z by `maps` and `form`, and u = aᵀZ. In kernels this takes three
    launches, and seven with its gradient.

    Arguments:
        state: X, H, b and h, or a Z that is written already.
        read: a, (..., n), if another sublayer made it, as in single-pass mHC: then u is read with
            it, and the a of this Z is returned, too.
        norm: the norm in front of the next sublayer, if u shall be normalised.
    Returns: Z; u, (..., d); the next rows of H, then b, as in `Unwritten`; and with `read` the next
        a.
    Raises: as `stream_mix_write`, `rms_linear` and `sinkhorn`; ValueError for another number of
        logits or scales.
    """
    x, update, given = state if isinstance(state, Unwritten) else (state, None, None)
    sizes = _require_join(x, update, given, maps, read, norm)
    n, d = x.shape[-2:]
    held = kernels.takes(x, norm) if kernels.serves(x, n) else None
    # without features the coefficients are the bias's
    if d and kernels.joins(x, len(maps.weight), wide=True):
        given = state.together() if isinstance(given, tuple) else given
        z, u, *made = kernels.TWINS["constrained_join"](x, given, update, maps, form, read, held)
        return z, u if norm is None or held else norm(u), *made
    if kernels.serves(x):
        write, generate, project, hear = (stream_mix_write, rms_linear, sinkhorn,
                                          partial(stream_read, norm=held))
    else:  # no kernel serves any of them
        by_hand = not kernels.transformed()
        write, generate, project, hear = (partial(f, by_hand=by_hand) for f in REFERENCES)
    with outside_autocast(x):
        z = write(x, *state.apart(), update) if isinstance(state, Unwritten) else x
        # before the coefficients, so that gradients add up in the order of one operator after the
        # other
        u = None if read is None else hear(z, read)
        logits = generate(z.flatten(-2), maps.scaled(sizes), form.norm_eps) + maps.bias
        made_read, made_write, *mix = logits.split(sizes, dim=-1)
        made_read = made_read.sigmoid() + form.eps
        made = (2 * made_write.sigmoid() + form.write_eps).unsqueeze(-2)
        if mix:
            matrix = mixture(mix[0], maps.corners) if maps.corners is not None else project(
                mix[0].unflatten(-1, (n, n)), form.iterations, form.order, eps=form.eps)
            made = torch.cat([matrix, made], dim=-2)
        u = hear(z, made_read) if u is None else u
    u = u if norm is None or held else norm(u)
    return (z, u, made) if read is None else (z, u, made, made_read)


def _require_join(x: Tensor, update: Any, given: Tensor | tuple | None, maps: Maps,
                  read: Tensor | None, norm: Callable | None) -> tuple[int, ...]:
    """Return the numbers of logits of a, b and H. Raise ValueError for a shape that doesn't fit,
    and TypeError for a dtype. Those that are as expected are passed over.
    """
    named = {"given": given, "update": update, "read": read}
    if isinstance(given, tuple):
        named |= {"given": None, "matrix": given[0], "weights": given[1]}
    named = {name: tensor for name, tensor in named.items() if tensor is not None}
    if (x.ndim < 2 or (maps.scale.ndim, maps.bias.ndim) != (1, 1)
            or not all(t.is_floating_point() for t in (x, *maps[:3], *named.values()))):
        require_state("x", x, 2)
        require_maps(maps.weight, maps.scale, maps.bias)
        require_real(**named)
    tokens, (n, d) = x.shape[:-2], x.shape[-2:]
    of_mix = n * n if maps.corners is None else len(maps.corners)
    sizes = (n, n) if len(maps.scale) == 2 else (n, n, of_mix)
    if isinstance(given, tuple):
        matrix, weights = given
        require_write(x, matrix, weights, update)
        given = None
    for name, tensor, own, leading, width in (
            ("given", given, 2, tokens, n), ("update", update, 1, tokens, d),
            ("weight", maps.weight, 2, (), n * d), ("read", read, 1, tokens, n),
            ("norm", norm.weight if isinstance(norm, Norm) else None, 1, (), d)):
        if tensor is not None and (tensor.ndim, tensor.shape[:-own], tensor.shape[-1:]) != (
                len(leading) + own, leading, (width,)):
            require_leading(name, tensor, own, leading)
            require_width(name, tensor, width)
    if given is not None and given.shape[-2] not in (1, n + 1):
        require_square("matrix", given[..., :-1, :], n)
    if maps.corners is not None and maps.corners.shape[1:] != (n, n):
        require_square("corners", maps.corners, n)
    for name, rows, count in (("weight", maps.weight, sum(sizes)), ("bias", maps.bias, sum(sizes)),
                              ("scale", maps.scale, len(sizes))):
        if len(rows) != count:
            raise ValueError(f"{name} must have {count} rows for {n} streams, got {len(rows)}")
    return sizes


REFERENCES = (stream_mix_write_reference, rms_linear_reference, sinkhorn_reference,
              stream_read_reference)


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
