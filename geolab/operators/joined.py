"""What lies between two sublayers: the write of one, then the generator and the read of the next,

    Z = H X + b ⊗ h        (a, …) = generated(W (z / rms z))        u = aᵀZ

A sublayer ends with a write and begins with a read. So with F in between, a network of L sublayers
is one `stream_generate_read`, L − 1 times `stream_join`, and one `stream_mix_write`. This is the
same function as one operator after the other. Joined, its kernels form the gradient of Z in one
place and never write it. They serve up to four streams on a Hopper GPU, where registers hold all
but 40 bytes of a thread in the backward pass.

Legend: n streams, d features per stream, O outputs of W, ... any leading axes (batch, position).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from geolab import kernels
from geolab.checks import require_leading, require_width
from geolab.kernels import joins
from geolab.operators.generate import rms_linear
from geolab.operators.streams import require_write, stream_mix_write, stream_read


def stream_generate_read(x: Tensor, weight: Tensor, eps: float,
                         generated: Callable[[Tensor], tuple]) -> tuple[Tensor, ...]:
    """X, what the sublayer reads of it, and the coefficients that W generates.

    What comes next takes the X that this returns, for its gradient: then the kernel adds up all
    that comes back to X.

    Arguments:
        x: X, (..., n, d).
        weight: W, (O, n d).
        eps: the guard of the norm.
        generated: makes the coefficients of the numbers (..., O). The first one is a, (..., n).
    Returns: X, aᵀX (..., d), and the coefficients, one after the other.
    Raises: as `rms_linear` and `stream_read`.
    """
    require_width("weight", weight, x.shape[-2] * x.shape[-1])
    require_leading("weight", weight, 2, ())
    if joins(x, len(weight)):
        return kernels.TWINS["stream_generate_read"](x, weight, eps, generated)
    found = generated(rms_linear(x.flatten(-2), weight, eps))
    return x, stream_read(x, found[0]), *found


def stream_join(x: Tensor, matrix: Tensor, weights: Tensor, update: Tensor, weight: Tensor,
                eps: float, generated: Callable[[Tensor], tuple]) -> tuple[Tensor, ...]:
    """Z = H X + b ⊗ h, what the next sublayer reads of it, and the next coefficients.

    Arguments:
        x, matrix, weights, update: X, H, b and h, as of `stream_mix_write`.
        weight, eps, generated: of the next sublayer, as of `stream_generate_read`.
    Returns: Z (..., n, d), aᵀZ (..., d), and the next coefficients, one after the other.
    Raises: as `stream_mix_write` and `stream_generate_read`.
    """
    require_write(x, matrix, weights, update)
    require_width("weight", weight, x.shape[-2] * x.shape[-1])
    require_leading("weight", weight, 2, ())
    if joins(x, len(weight)):
        return kernels.TWINS["stream_join"](x, matrix, weights, update, weight, eps, generated)
    return stream_generate_read(stream_mix_write(x, matrix, weights, update), weight, eps,
                                generated)

PRODUCTS = {"mm", "addmm", "bmm", "baddbmm"}


def recomputed(run: Callable, *inputs: Any) -> Any:
    """run(*inputs), of which the backward pass keeps no state: it forms the states again.

    It keeps F's products of matrices and its attention, and runs all else again, in the mode of
    `kernels.use` that the forward pass ran in. This is mHC's recomputation (section 4.3.2) of a
    block of sublayers, and costs the block's forward traffic once more, 3n + 2 vectors per
    sublayer. For this TileKernels keep the coefficients too and hold the state on chip: n + 2.
    Without kernels the products that form a state are kept.
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
