"""Experiment 4 of the Manifold-Geometric Transformer's paper: depth at a fixed number of weights.
"""

import math
from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from geolab.tasks import Task, Text
from geolab.training import Budget
from studies.claims.configurations import MGT_PLANS
from studies.engine.arm import Arm, comparison
from studies.engine.protocol import Protocol
from studies.engine.run import Study
from studies.experiments.mgt import PAIR, SHORT, Builds, backbone, build


def fixed_size(task: Task, parameters: float, layers: int, heads: int, max_length: int) -> Builds:
    """Make models whose width is the nearest to that of 12 width² parameters per block.

    With both gates it is 16 width². The MLP takes up the rounding.
    """
    builds: Builds = {}
    for name, options in PAIR.items():
        gates = 4 if options["gate"] else 0
        width = heads * round(math.sqrt(parameters / layers / (12 + gates)) / heads)
        hidden = round((parameters / layers - (4 + gates) * width**2) / (2 * width))
        config = replace(backbone(width, layers, heads, max_length), hidden=hidden)
        builds[name] = partial(build, config, task.vocabulary, options)
    return builds


def at_depths(task: Task, parameters: float, depths: Iterable[int], heads: int,
              max_length: int) -> Builds:
    return {f"{name}, {layers} blocks": model for layers in depths
            for name, model in fixed_size(task, parameters, layers, heads, max_length).items()}


def small() -> list[Arm]:
    text = Text(context=32)
    return comparison("depth", at_depths(text, 1e5, (2, 4, 8, 16), heads=2, max_length=64), text,
                      Budget(steps=300, evaluate_every=30), Protocol())


def medium() -> list[Arm]:
    text = Text(context=128)
    return comparison("depth", at_depths(text, 1e7, (12, 24, 48), heads=4, max_length=128), text,
                      Budget(steps=300, batch=16, evaluate_every=75), SHORT)


def paper() -> list[Arm]:
    four, batch = MGT_PLANS["mgt-depth"], MGT_PLANS["mgt-ablation"].batch
    text = Text("wikitext-2", context=256, size=11_000_000)
    epoch = 10_900_000 // (batch * 256)
    return comparison("depth", at_depths(text, four.parameters, four.layers, heads=4,
                                         max_length=256), text,
                      Budget(steps=four.epochs * epoch, batch=batch, evaluate_every=epoch),
                      replace(SHORT, search_steps=epoch))


STUDY = Study("mgt_depth", "Which depth is best at a fixed size, and does MGT bear more of it?",
              {"cpu": small, "gpu": medium, "paper": paper})
