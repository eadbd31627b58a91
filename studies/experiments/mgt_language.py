"""Experiment 5 of the Manifold-Geometric Transformer's paper: language at the shape that it states.

Width, depth and heads are the paper's. The text is the package's sample instead of WikiText-103,
and each run reads half of its bytes once, where the paper reads all of its text a hundred times.
The standard model is pre-norm, as in the paper's algorithm.
"""

from dataclasses import replace
from functools import partial

from geolab.distributed import Engine
from geolab.training import Budget
from studies.claims.configurations import MGT_PLANS
from studies.engine.arm import Arm, comparison
from studies.engine.held_out import Reported, Selected
from studies.engine.run import Study
from studies.experiments.mgt import PAIR, SHORT, backbone, build

PLAN = MGT_PLANS["mgt-language"]
TASK, SELECTS = Reported(context=128), Selected(context=128)
BUDGET = Budget(steps=240, batch=4, evaluate_every=60)


def stated() -> list[Arm]:
    """Train at the stated shape on 122,880 bytes."""
    config = backbone(PLAN.width, PLAN.layers[0], PLAN.heads, max_length=TASK.context)
    models = {name: partial(build, config, TASK.vocabulary, options)
              for name, options in PAIR.items()}
    return comparison("text", models, TASK, BUDGET, replace(SHORT, seeds=tuple(range(8))),
                      engine=Engine(precision="bfloat16"), selects=SELECTS)


STUDY = Study("mgt_language", "Does the Manifold-Geometric Transformer model language better at "
              "the shape of its paper's experiment 5?", {"cpu": stated})
