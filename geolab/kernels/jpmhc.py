"""The kernels between two sublayers of JPmHC, as `constrained` has them: a, b′ and H′ are those of
`turn`, and y = W (z − mean z) / σ of the whole token.
"""

from typing import Any

import torch
from torch import Tensor

from geolab.kernels import launch
from geolab.kernels.constrained import Form, Maps, join
from geolab.kernels.hyper import spread_weight
from geolab.kernels.launch import twin


@twin
def jpmhc_join(x: Tensor, given: Tensor | None, update: Tensor | None, maps: tuple,
               affine: tuple[Tensor, Tensor], form: Any,
               norm: tuple[Tensor, float] | None = None) -> tuple[Tensor, ...]:
    """Z, u and H′ above b′, as `operators.jpmhc_join`, for n up to 6.

    Seven streams have more logits than `MOST_OUTPUTS`.
    It moves as many vectors as `constrained_join`.
    Raises: ValueError for a mix of devices; TypeError for a dtype that kernels don't read.
    """
    weight, scale, bias, _ = maps
    stretch, shift = affine
    launch.require("x", x=x, weight=weight, scale=scale, bias=bias, stretch=stretch, shift=shift)
    weight = weight.float()
    bias = torch.addmv(bias.float(), weight, shift.float())
    spread = spread_weight((weight * stretch.float()).contiguous(), 1)
    return join(x, given, update, Maps(spread, scale, bias),
                Form("rotation" if form.exact else "turn", form.eps, form.steps, False,
                     form.temperature, form.alpha), norm=norm)
