"""x ← s ⊙ (x + c) + s′ ⊙ (F(norm x) + c′): a residual whose two summands are scaled.

Each of s, c, s′, c′ is one number per feature, learned or constant. Published forms:

    ZAYA1     all four learned, from 1, 0, 1, 0                     learned=LEARNED, the default
    Doge      s learned, from 1: x ← s ⊙ x + F(norm x)              learned=("state",)
    Granite   s′ a constant: x ← x + s′ F(norm x)                   update=…, learned=()
    MiniMax   s and s′ constants                                    state=…, update=…, learned=()

The forms are those of `transformers`: models/zaya, models/doge, models/granite, models/minimax.
MiniMax's x is the output of a norm, which stands in front of the residual and not inside F.
"""

from collections.abc import Collection

import torch
from torch import Tensor, nn

from geolab.checks import require_number, require_options
from geolab.residuals.base import Residual, Sublayer

LEARNED = ("state", "state_shift", "update", "update_shift")  # s, c, s′ and c′


class Scaled(Residual):
    """x ← s ⊙ (x + c) + s′ ⊙ (F(norm x) + c′), with c = c′ = 0 at the start.

    Arguments:
        state, update: s and s′, at the start where they are learned.
        learned: those of LEARNED that are learned, one number per feature.
    Raises: ValueError for a name that isn't in LEARNED, or a number that isn't finite.
    """

    spectrum = "sᵢ, one per feature"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, state: float = 1.0,
                 update: float = 1.0, learned: Collection[str] = LEARNED):
        super().__init__(width, index, count)
        require_number("state", state)
        require_number("update", update)
        require_options("learned", learned, LEARNED)
        self.starts = dict(zip(LEARNED, (float(state), 0.0, float(update), 0.0), strict=True))
        for name in LEARNED:
            self.register_parameter(name, nn.Parameter(torch.empty(width)) if name in learned
                                    else None)
        self.start_own()

    def start_own(self) -> None:
        for name, weight in self.named_parameters(recurse=False):
            nn.init.constant_(weight, self.starts[name])

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        return self._scaled("state", state) + self._scaled("update", sublayer(state))

    def _scaled(self, name: str, x: Tensor) -> Tensor:
        scale, shift = getattr(self, name), getattr(self, f"{name}_shift")
        shifted = x if shift is None else x + shift.to(x.dtype)
        return shifted * (self.starts[name] if scale is None else scale.to(x.dtype))
