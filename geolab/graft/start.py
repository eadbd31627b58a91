"""Measure residuals before they are put into a network: their start, and the positions they read.

Both are measured in float64 on the CPU, around known sublayers. `graft` measures the residuals that
it has made, by `distance` and `looks_around`, which leave them as they are.
"""

from collections.abc import Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.graft.block import make_residuals
from geolab.residuals import Residual
from geolab.residuals.base import plainly, through


def distance_from_plain(residual: str | type[Residual], width: int, sublayers: int = 8,
                        post_norm: bool = False, **options) -> float:
    """‖y − y₀‖ / ‖y₀ − x‖ at the start: the distance of the output y from the plain network's
    output y₀.

    It is relative to the sum y₀ − x that the plain sublayers add.

    Arguments:
        residual, width, options: as for `make_residual`.
        sublayers: the number of sublayers. They are tanh(a ⊙ norm x), with random a.
        post_norm: whether a norm comes after each residual, instead of before F.
    Raises: ValueError for a norm after a residual whose state doesn't consist of streams.
    """
    with torch.device("cpu"), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        made = [part.double() for part in make_residuals(residual, width, sublayers, **options)]
        if post_norm:
            require_streams(residual, made[0])
        return distance(made, post_norm)


def reads_other_positions(residual: str | type[Residual], width: int, **options) -> bool:
    """Return whether an output depends on inputs at other positions, with an F that doesn't mix
    positions.
    """
    with torch.device("cpu"), torch.random.fork_rng(devices=[]), torch.inference_mode(False):
        torch.manual_seed(0)
        made = make_residuals(residual, width, 2, **options)
        return looks_around([part.double() for part in made])


@torch.no_grad()
def distance(residuals: Sequence[Residual], post_norm: bool = False) -> float:
    """`distance_from_plain` of all residuals of a network, in float64."""
    width = residuals[0].width
    x = torch.randn(1, 4, width, dtype=torch.float64)
    sublayers = _sublayers(len(residuals), width, post_norm)
    y, plain = through(residuals, x, sublayers), plainly(x, sublayers)
    return ((y - plain).norm() / (plain - x).norm()).item()


@torch.inference_mode(False)
def looks_around(residuals: Sequence[Residual]) -> bool:
    """`reads_other_positions` of all residuals of a network, in float64: the first two write, and
    the last one reads the state out.

    Their parameters are changed a little at random meanwhile, since a residual may start where it
    reads nothing.
    """
    some, last = residuals[:2], residuals[-1]
    kept = {p: p.detach().clone() for part in (*some, last) for p in part.parameters()}
    x = torch.randn(1, 3, some[0].width, dtype=torch.float64, requires_grad=True)
    try:
        with torch.no_grad():
            for p in kept:
                p.add_(0.1 * torch.randn_like(p))
        y = through(some, x, _sublayers(len(some), some[0].width))
        y = (y if some[-1].last else last.reduce(y))[0, 1]
        slope, = torch.autograd.grad((torch.randn_like(y) * y).sum(), x)
        return bool(slope[0, [0, 2]].any())
    finally:
        with torch.no_grad():
            for p, value in kept.items():
                p.copy_(value)


def require_streams(name: str | type[Residual], residual: Residual) -> None:
    """Raise ValueError where a norm after a residual, in float64, wouldn't normalise streams."""
    width = residual.width
    shape = residual.expand(torch.zeros(1, 1, width, dtype=torch.float64)).shape
    if shape[-1] != width:
        raise ValueError(f"a norm after the residual normalises streams of width {width}, and the "
                         f"state of {name!r} has shape {tuple(shape)}; use norm_first=True")


def _sublayers(count: int, width: int, post_norm: bool = False) -> list[tuple]:
    norm = partial(F.rms_norm, normalized_shape=(width,))
    scales = torch.randn(count, width, dtype=torch.float64)
    functions = [partial(_scaled_tanh, scale) for scale in scales]
    return [(None, f, norm) if post_norm else (norm, f) for f in functions]


def _scaled_tanh(scale: Tensor, x: Tensor) -> Tensor:
    return (scale * x).tanh()
