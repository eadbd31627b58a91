"""Experiment 2 of the Manifold-Geometric Transformer's paper, its ablation: on text, and on the
copy task that the paper lists among its data.

The other arms are the paper's four with post-norm, as in its text; a standard model with as many
weights; LayerScale, the baseline of a gate; MGT with the rate and the projection of its text; and
the 2 × 2 of mHC's streams and delta's update that the names of the four suggest.
"""

from dataclasses import replace
from functools import partial

from geolab.models import TokenModel, TransformerConfig
from geolab.residuals.layer_scale import LayerScale
from geolab.residuals.mgt_forms import MHCDelta, Projected, TokenRate
from geolab.tasks import Copy, Task, Text
from geolab.training import Budget
from studies.claims.configurations import MGT_PLANS, MGT_VARIANTS
from studies.engine.arm import Arm, comparison
from studies.engine.protocol import Protocol
from studies.engine.run import Study
from studies.experiments.mgt import MGT, SHORT, STANDARD, Builds, backbone, build

OTHERS = {  # name -> residual and options
    "LayerScale": (LayerScale, {}),
    "MGT, β per token": (TokenRate, MGT),
    "MGT, projection": (Projected, MGT),
    "mHC": ("mhc", {}),
    "delta": ("delta", {}),
    "mHC × delta": (MHCDelta, {}),
}


def models(task: Task, config: TransformerConfig) -> Builds:
    post, wide = replace(config, norm_at="post"), replace(config, hidden=6 * config.width)
    make = partial(build, config, task.vocabulary)
    return {
        **{name: partial(make, options) for name, options in MGT_VARIANTS.items()},
        "Standard, MLP 6D": partial(build, wide, task.vocabulary, STANDARD),
        **{f"{name}, post-LN": partial(build, post, task.vocabulary, options)
           for name, options in MGT_VARIANTS.items()},
        **{name: partial(make, options, residual) for name, (residual, options) in OTHERS.items()}}


def on_copy(builds: Builds) -> Builds:
    """The paper's arms, the larger and the post-norm standard model, and the real 2 × 2."""
    names = (*MGT_VARIANTS, "Standard, MLP 6D", "Standard, post-LN", "mHC", "delta", "mHC × delta")
    return {name: builds[name] for name in names}


def alphas(model: TokenModel) -> dict:
    """α by sublayer; the paper's formula erases where it is positive."""
    residuals = [layer.residual for layer in model.trunk.layers]
    return {"alpha": [round(r.alpha.item(), 4) for r in residuals if getattr(r, "erase", False)
                      and hasattr(r, "alpha")]}


def small() -> list[Arm]:
    text, copy = Text(context=32), Copy(half=16, alphabet=32, validation=500)
    shape = {"heads": 2, "max_length": 64}
    return [*comparison("text", models(text, backbone(48, 4, **shape)), text,
                        Budget(steps=500, evaluate_every=100), Protocol(), measure=alphas),
            *comparison("copy", on_copy(models(copy, backbone(48, 2, **shape))), copy,
                        Budget(steps=300, evaluate_every=50), Protocol())]


def medium() -> list[Arm]:
    """Train at the paper's depth and width. 300 steps of 2048 bytes read the text 2.5 times.

    By the number of launches, one job takes a quarter of an hour.
    """
    text, copy = Text(context=128), Copy(half=64)
    shape = {"heads": 4, "max_length": 128}
    budget = Budget(steps=300, batch=16, evaluate_every=75)
    return [*comparison("text", models(text, backbone(256, 48, **shape)), text, budget, SHORT,
                        measure=alphas),
            *comparison("copy", on_copy(models(copy, backbone(256, 12, **shape))), copy, budget,
                        SHORT)]


def paper() -> list[Arm]:
    """Train at the paper's depth, width and batch, for its epochs of 10.9 million bytes each.

    Here the rate is searched and sixteen seeds train; the paper has one rate and three seeds.
    """
    two = MGT_PLANS["mgt-ablation"]
    text = Text("wikitext-2", context=256, size=11_000_000)
    epoch = 10_900_000 // (two.batch * 256)
    budget = Budget(steps=two.epochs * epoch, batch=two.batch, evaluate_every=epoch)
    config = backbone(two.width, two.layers[0], heads=4, max_length=256)
    return comparison("text", models(text, config), text, budget,
                      replace(SHORT, search_steps=epoch), measure=alphas)


STUDY = Study(
    "mgt_ablation",
    "Do the Manifold-Geometric Transformer's gates gain more together than apart, and more than "
    "simpler ones?",
    {"cpu": small, "gpu": medium, "paper": paper})
