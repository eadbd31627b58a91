"""The sizes and options of a backbone. The papers' backbones differ in these only.

`TransformerConfig.ddl` has RMSNorm, RoPE, normalised queries and keys, and SwiGLU.
`TransformerConfig.benchmark` has LayerNorm, learned positions and GELU, as E-MHC-Geo trains it.
"""

import math
from dataclasses import dataclass, replace

from geolab.checks import require_count, require_option

OPTIONS = {"norm": ("rms", "layer"), "norm_at": ("pre", "post"), "positions": ("rope", "learned"),
           "mlp": ("swiglu", "gelu")}


@dataclass(frozen=True)
class TransformerConfig:
    """The sizes and options of the backbone. The defaults are the DDL paper's choices, at a small
    size.

    Raises: ValueError for an unknown option, a size that isn't a positive whole number, a width
        that heads doesn't divide, or rope with an odd number of features per head.
    """

    width: int = 64                    # D
    layers: int = 4                    # blocks, of two sublayers each
    heads: int = 4                     # H; it must divide D
    hidden: int = 170                  # features inside the MLP
    max_length: int = 1024             # the longest sequence
    norm: str = "rms"                  # "rms" or "layer"; a weight, no bias
    norm_at: str = "pre"               # "pre": x + F(norm x); "post": norm(x + F(x)), per stream
    positions: str = "rope"            # "rope" or "learned"
    qk_norm: bool = True               # normalise queries and keys, after the rotation
    mlp: str = "swiglu"                # "swiglu" or "gelu"
    causal: bool = True                # False: no attention mask, so the model reads the future
    init_std: float = 0.0625           # standard deviation of every matrix
    output_std: float = 0.03125        # of the last matrix of each sublayer

    def __post_init__(self):
        for name, known in OPTIONS.items():
            require_option(name, getattr(self, name), known)
        for name in ("width", "layers", "heads", "hidden", "max_length"):
            require_count(name, getattr(self, name))
        if self.width % self.heads:
            raise ValueError("width must be divisible by heads, got width "
                             f"{self.width} and heads {self.heads}")
        if self.positions == "rope" and self.width // self.heads % 2:
            raise ValueError("rope needs an even number of features per head, got "
                             f"{self.width // self.heads}")

    @classmethod
    def ddl(cls, width: int = 64, layers: int = 4, heads: int = 4,
            **changes) -> "TransformerConfig":
        """The backbone of Deep Delta Learning (section 5 and appendix B), at any size."""
        std = 0.5 / math.sqrt(width)
        return replace(cls(width=width, layers=layers, heads=heads, hidden=8 * width // 3,
                           init_std=std, output_std=std / math.sqrt(layers)), **changes)

    @classmethod
    def benchmark(cls, width: int = 128, layers: int = 9, heads: int = 4,
                  **changes) -> "TransformerConfig":
        """The GPT of the E-MHC-Geo benchmark (its table 5), at any size."""
        return replace(cls(width=width, layers=layers, heads=heads, hidden=4 * width, norm="layer",
                           positions="learned", qk_norm=False, mlp="gelu", init_std=0.02,
                           output_std=0.02 / math.sqrt(2 * layers)), **changes)
