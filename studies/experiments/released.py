"""Every residual over the additive one, on text: those of released models, of papers, of the book.

One backbone of about a million weights for all, and a search at the length that reports. mHC is
there with both starts, and without each of its parts: so the file says which part carries what it
gains here.
"""

import math
from functools import partial

from geolab.models import TokenModel, Transformer, TransformerConfig
from geolab.residuals import Residual
from geolab.residuals.layer_scale import LayerScale
from geolab.tasks import Text
from geolab.training import Budget
from studies.engine.arm import Arm, comparison
from studies.engine.protocol import Protocol
from studies.engine.run import Study

TASK = Text(context=64)
WIDTH, BLOCKS = 128, 5
PUBLISHED = {"start": "published"}
RELEASED: dict[str, tuple[str, dict]] = {
    "additive": ("additive", {}),
    "hyper": ("hyper", {}),
    "mhc": ("mhc", {}),
    "mhc, published start": ("mhc", PUBLISHED),
    "mhc, H = I": ("mhc", PUBLISHED | {"without": ("mix",)}),
    "mhc, no read": ("mhc", PUBLISHED | {"without": ("read",)}),
    "mhc, no write": ("mhc", PUBLISHED | {"without": ("write",)}),
    "mhc, permutations": ("mhc", PUBLISHED | {"mix": "permutations"}),
    "mhc, Kronecker": ("mhc", PUBLISHED | {"mix": "kronecker"}),
    "mhc, orthostochastic": ("mhc", PUBLISHED | {"mix": "orthostochastic"}),
    "mhc, circulant": ("mhc", PUBLISHED | {"mix": "circulant"}),
    "single-pass": ("single-pass", PUBLISHED),
    "gated streams": ("gated-streams", {"rank": 16}),
    "attention residuals": ("attnres", {}),
    "attention residuals, blocks": ("attnres", {"block": 2}),
    "DenseFormer": ("denseformer", {}),
    "delta": ("delta", {}),
    "DeltaProduct": ("delta-product", {}),
    "norm-preserving": ("norm-preserving", {}),
    "ReZero": ("rezero", {}),
    "LAuReL": ("laurel", {}),
}
OTHERS: dict[str, tuple[str | type[Residual], dict]] = {
    "LayerScale": (LayerScale, {}),
    "post-LN": ("additive", {"norm_at": "post"}),
} | {name: (name, {}) for name in (
    "jpmhc", "delta-matrix", "mgt", "benchmark-delta", "benchmark-mhc", "benchmark-jpmhc",
    "emhc-cayley", "emhc-hybrid", "emhc-geodesic", "emhc-exact", "emhc-stream", "emhc-mixer")}


def build(residual: str | type[Residual], norm_at: str = "pre", **options) -> TokenModel:
    std = 0.5 / math.sqrt(WIDTH)
    config = TransformerConfig.benchmark(
        width=WIDTH, layers=BLOCKS, heads=4, max_length=TASK.context, norm_at=norm_at,
        init_std=std, output_std=std / math.sqrt(BLOCKS))
    return TokenModel(Transformer(config, residual, **options), TASK.vocabulary)


def million() -> list[Arm]:
    """Search on two seeds at full length; report on eight others, and on four at equal time."""
    models = {name: partial(build, residual, **options)
              for name, (residual, options) in {**RELEASED, **OTHERS}.items()}
    return comparison("text", models, TASK, Budget(steps=800, batch=4, evaluate_every=200),
                      Protocol(rates=(1e-3, 2e-3, 5e-3), warmups=(0.3, 0.6),
                               seeds=tuple(range(8)), few=(0, 1, 2, 3),
                               variations=("next best", "equal time")))


STUDY = Study("released", "What does each residual gain over the additive one, and which part of "
              "mHC carries what it gains?", {"cpu": million})
