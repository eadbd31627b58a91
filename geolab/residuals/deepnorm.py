"""x ← norm(α x + F(x)): DeepNorm (Wang et al. 2022, arXiv 2203.00555).

The norm after the sum belongs to the backbone: DeepNorm is this residual in a network with
norm_at="post", or grafted into post-norm blocks. In a pre-norm network no norm follows the sum, and
the state grows by α at each sublayer.

The paper also multiplies the initial weights of the value map, of attention's output and of the MLP
by (8N)^(−1/4), for N layers. This belongs to the backbone too: to its `init_std` and `output_std`.
"""

from torch import Tensor

from geolab.checks import require_number
from geolab.residuals.base import Residual, Sublayer


class DeepNorm(Residual):
    """α x + F(x), for a norm to follow. It has no parameters.

    Arguments:
        alpha: α. None is (2N)^(1/4), which the paper derives for an encoder or a decoder of N
            layers, so of 2N sublayers.
    Raises: ValueError for an α below 0.
    """

    spectrum = "α"

    def __init__(self, width: int, index: int = 0, count: int = 1, *, alpha: float | None = None):
        super().__init__(width, index, count)
        if alpha is not None:
            require_number("alpha", alpha, 0)
        self.alpha = count**0.25 if alpha is None else alpha

    def forward(self, state: Tensor, sublayer: Sublayer) -> Tensor:
        return self.alpha * state + sublayer(state)
