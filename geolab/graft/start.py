"""Measure a residual before it is put into a network: its start, and the positions that it reads.

Both are measured in float64, on a small stack around known sublayers.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from geolab.graft.block import make_residuals, through
from geolab.residuals import Residual


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
    with torch.no_grad(), torch.device("cpu"), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        residuals = _stack(residual, width, sublayers, options)
        if post_norm:
            _require_streams(residual, residuals[0], width)
        x = torch.randn(1, 4, width, dtype=torch.float64)
        parts = _sublayers(sublayers, width, post_norm)
        y, plain = (through(around, x, parts)
                    for around in (residuals, _stack("additive", width, sublayers, {})))
        return ((y - plain).norm() / (plain - x).norm()).item()


def reads_other_positions(residual: str | type[Residual], width: int, **options) -> bool:
    """Return whether an output depends on inputs at other positions, with an F that doesn't mix
    positions.

    All parameters are changed a little at random first, since a residual may start where it reads
    nothing.
    """
    with torch.enable_grad(), torch.device("cpu"), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        residuals = _stack(residual, width, 2, options)
        with torch.no_grad():
            for p in (p for part in residuals for p in part.parameters()):
                p.add_(0.1 * torch.randn_like(p))
        x = torch.randn(1, 3, width, dtype=torch.float64, requires_grad=True)
        y = through(residuals, x, _sublayers(2, width))[0, 1]
        slope, = torch.autograd.grad((torch.randn_like(y) * y).sum(), x)
        return bool(slope[0, [0, 2]].any())


def _stack(residual, width: int, count: int, options: dict) -> list[Residual]:
    return [part.double() for part in make_residuals(residual, width, count, **options)]


def _sublayers(count: int, width: int, post_norm: bool = False) -> list[tuple]:
    norm = partial(F.rms_norm, normalized_shape=(width,))
    scales = torch.randn(count, width, dtype=torch.float64)
    functions = [partial(_scaled_tanh, scale) for scale in scales]
    return [(None, f, norm) if post_norm else (norm, f) for f in functions]


def _scaled_tanh(scale: Tensor, x: Tensor) -> Tensor:
    return (scale * x).tanh()


def _require_streams(name, residual: Residual, width: int) -> None:
    shape = residual.expand(torch.zeros(1, 1, width, dtype=torch.float64)).shape
    if shape[-1] != width:
        raise ValueError(f"a norm after the residual normalises streams of width {width}, and the "
                         f"state of {name!r} has shape {tuple(shape)}; use norm_first=True")
