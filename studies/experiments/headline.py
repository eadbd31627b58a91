"""Every residual over the additive one, in one backbone on text: the book's one large comparison.

All have the same width and depth, so their parameters and their time per step differ. The file has
both numbers, and the comparison at equal time. A model has about a million parameters.
"""

import math
from functools import partial

from geolab.models import TokenModel, Transformer, TransformerConfig
from geolab.residuals.layer_scale import LayerScale
from geolab.tasks import Text
from geolab.training import Budget
from studies.engine.arm import Arm, comparison
from studies.engine.decay import every_matrix_decays
from studies.engine.protocol import Protocol
from studies.engine.run import Study

TASK = Text(context=64)
WIDTH, BLOCKS = 128, 5
RESIDUALS = {"additive": "additive", "LayerScale": LayerScale} | {name: name for name in (
    "hyper", "mhc", "jpmhc", "delta", "delta-matrix", "mgt", "emhc-cayley", "emhc-hybrid",
    "emhc-geodesic", "emhc-exact", "emhc-stream", "emhc-mixer",
    "benchmark-delta", "benchmark-mhc", "benchmark-jpmhc")}


def build(residual, norm_at: str = "pre") -> TokenModel:
    std = 0.5 / math.sqrt(WIDTH)
    config = TransformerConfig.benchmark(
        width=WIDTH, layers=BLOCKS, heads=4, max_length=TASK.context, norm_at=norm_at,
        init_std=std, output_std=std / math.sqrt(BLOCKS))
    return every_matrix_decays(TokenModel(Transformer(config, residual), TASK.vocabulary))


def million() -> list[Arm]:
    """Search on one seed with half as many steps; report on eight seeds, with one variation.

    The batch is small, because with as many tokens in batches four times as large, the models
    hardly beat counts of two bytes and can't be told apart. The runs take four hours of one core.
    """
    models = {name: partial(build, residual) for name, residual in RESIDUALS.items()}
    models["post-LN"] = partial(build, "additive", "post")
    return comparison("text", models, TASK, Budget(steps=800, batch=4, evaluate_every=200),
                      Protocol(rates=(1e-3, 2e-3, 5e-3), warmups=(0.3, 0.6), search_seeds=(100,),
                               search_steps=400, seeds=tuple(range(8)), few=(0, 1, 2, 3),
                               variations=("equal time",)))


STUDY = Study("headline", "What does each residual gain over the additive one, per step and per "
              "second?", {"cpu": million})
