"""The backbone and the variants that the studies of the Manifold-Geometric Transformer share.

The paper's algorithm is pre-norm, and its text calls the standard control post-norm: both are here.
"""

import math
from collections.abc import Callable

from torch import nn

from geolab.models import TokenModel, Transformer, TransformerConfig
from geolab.residuals import Residual
from studies.claims.configurations import MGT_VARIANTS
from studies.engine.protocol import Protocol

STANDARD, MGT = MGT_VARIANTS["Standard"], MGT_VARIANTS["MGT (Full)"]
PAIR = {"Standard": STANDARD, "MGT (Full)": MGT}
Builds = dict[str, Callable[[], nn.Module]]

# for half an hour of one GPU, and for the paper's size, with an epoch for each run of the search
SHORT = Protocol(rates=(5e-4, 1e-3, 2e-3), warmups=(0.1,), search_seeds=(100,), variations=())


def backbone(width: int, layers: int, heads: int, max_length: int) -> TransformerConfig:
    """Matrices start at 0.5/√width, and the last ones of a sublayer are smaller by √layers."""
    std = 0.5 / math.sqrt(width)
    return TransformerConfig.benchmark(
        width=width, layers=layers, heads=heads, max_length=max_length,
        init_std=std, output_std=std / math.sqrt(layers))


def build(config: TransformerConfig, vocabulary: int, options: dict,
          residual: str | type[Residual] = "mgt") -> TokenModel:
    return TokenModel(Transformer(config, residual, **options), vocabulary)
