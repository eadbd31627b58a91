"""Deep Delta Learning in its own backbone with a million weights: size, network and erasing apart.

    size       `delta` has this backbone with fifty thousand weights
    network    `released` has another backbone with a million weights, under the same protocol, but
               for the text: here the search reads one half of the held-out bytes, and the runs
               that report the other
    erasing    each number of channels stands beside its control that only writes

Further arms take one more difference each: the additive residual with as many weights as the
largest arm, the wider state with plain additions, the value of the paper's text, another start of
the kernels, and the public code's own form. Only the residual's matrices that multiply features
decay, as in `released`.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from torch import nn

from geolab.models import TokenModel, Transformer, TransformerConfig
from geolab.residuals.delta import DeltaRule
from geolab.training import Budget
from studies.claims.configurations import DDL_CONTROLS, DDL_PUBLISHED, PUBLISHED_KERNELS
from studies.engine.arm import Arm, comparison
from studies.engine.held_out import Reported, Selected
from studies.engine.protocol import Protocol
from studies.engine.run import Study
from studies.experiments.delta import gates

TASK, SELECTS = Reported(context=64), Selected(context=64)
CONFIG = TransformerConfig.ddl(width=128, layers=5, heads=4, max_length=TASK.context)
WIDER = 30   # more features in each MLP are as many weights as eight channels bring
WRITES = {"erase": False}
Model = tuple[str, Mapping]  # a residual's name and its options


def channels(count: int, **options) -> Model:
    return "delta-matrix", PUBLISHED_KERNELS | {"channels": count} | options


ARMS: dict[str, Model] = {
    "additive": ("additive", {}),
    "d_v = 1": ("delta", {}),
    "d_v = 1, write-only": ("delta", WRITES),
    "d_v = 1, v = σ": ("delta", {"value": "sigmoid"}),
    **{f"d_v = {count}{name}": channels(count, **options) for count in (2, 4, 8)
       for name, options in (("", {}), (", write-only", WRITES))},
    "d_v = 4, additions": channels(4, **DDL_CONTROLS["additive-matrix"]),
    "d_v = 4, v linear": channels(4, value="linear"),
    "d_v = 4, identity kernels": ("delta-matrix", {}),
}
CODE = {"d_v = 1, public code": "delta", "d_v = 4, public code": "delta-matrix"}


def build(config: TransformerConfig, residual: str, options: Mapping) -> TokenModel:
    return TokenModel(Transformer(config, residual, **options), TASK.vocabulary)


def public(config: TransformerConfig, residual: str, options: Mapping) -> TokenModel:
    """Build a model that starts as the public code's, where v's bias is PyTorch's own."""
    model = build(config, residual, options)
    for module in model.modules():
        if isinstance(module, DeltaRule):
            nn.init.uniform_(module.value_head.bias, *(end / math.sqrt(config.width)
                                                       for end in (-1, 1)))
    return model


def million() -> list[Arm]:
    """Search on two seeds at full length; report on eight others, and on four at equal time."""
    wide = replace(CONFIG, hidden=CONFIG.hidden + WIDER)
    models = {name: partial(build, CONFIG, *model) for name, model in ARMS.items()}
    models |= {name: partial(public, CONFIG, *DDL_PUBLISHED[of]) for name, of in CODE.items()}
    models["additive, wide"] = partial(build, wide, *ARMS["additive"])
    return comparison("text", models, TASK, Budget(steps=800, batch=4, evaluate_every=200),
                      Protocol(rates=(1e-3, 2e-3, 5e-3), warmups=(0.3, 0.6),
                               seeds=tuple(range(8)), few=(0, 1, 2, 3),
                               variations=("next best", "equal time")),
                      measure=partial(gates, TASK), selects=SELECTS)


STUDY = Study("delta_million", "What do Deep Delta Learning's write, erasure and channels gain "
              "with a million weights, in its own backbone?", {"cpu": million})
