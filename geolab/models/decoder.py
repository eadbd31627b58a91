"""The decoder of the Geometric Transformer lecture's listing 2.

Legend: B batch, T positions, D width, S positions of a memory.
"""

from dataclasses import replace

from torch import Tensor, nn

from geolab.checks import require_option
from geolab.models.geometric import KINDS, Block, GeometricConfig, final_norm, make_step


class GeometricDecoder(nn.Module):
    """The decoder of listing 2, for every kind: the steps A and X, then the steps that follow A in
    the kind.

    Attention is always masked. But listing 2 convolves on both sides, so position t reads the token
    that it should predict. Here C and G are causal too by default, with the same weights from the
    same seed.

    Arguments:
        config: sizes and options. Its `causal`, `masked` and `positions` are for the encoder alone.
        kind: as in `GeometricTransformer`.
        published: whether to convolve (and pass messages) on both sides; `leaks` says so.
    """

    def __init__(self, config: GeometricConfig, kind: str = "lite", *, published: bool = False):
        super().__init__()
        require_option("kind", kind, KINDS)
        letters = "AX" + KINDS[kind][1:]
        self.config, self.leaks = config, published and ("C" in letters or "G" in letters)
        causal = {letter: replace(config, causal=letter == "A" or not published)
                  for letter in letters}
        self.blocks = nn.ModuleList(
            Block({letter: make_step(letter, causal[letter]) for letter in letters})
            for _ in range(config.layers))
        self.norm = final_norm(config)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        """(B, T, D), (B, S, D) -> (B, T, D)."""
        for block in self.blocks:
            x = block(x, X=memory)
        return self.norm(x)
