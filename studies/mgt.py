"""The experiments that the Manifold-Geometric Transformer's paper plans and does not run.

    rank      1, effective rank over depth, and in its MGT models 3, which β is learned
    ablation  2, and its synergy S = L_gate + L_erase − L_standard − L_MGT (eq. 9)
    depth     4, depth at a fixed number of parameters
    language  5, equal width and depth
    copy      a task that the paper lists among its data, with the arms of 2

The paper's algorithm is pre-norm, and its text calls the standard control post-norm: both are here.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from geolab.models import TokenModel, Transformer, TransformerConfig
from geolab.models.backbone import Layer
from geolab.probes import effective_rank, states, statistics_by_layer
from geolab.tasks import Copy, Stream, Task, Text
from geolab.training import Budget
from studies.papers.configurations import MGT_PROTOCOLS, MGT_VARIANTS
from studies.results import interval
from studies.runner.arm import Arm, comparison
from studies.runner.run import Study
from studies.runner.watch import on_the_way, watch

STANDARD, MGT = MGT_VARIANTS["Standard"], MGT_VARIANTS["MGT (Full)"]
PAIR = {"Standard": STANDARD, "MGT (Full)": MGT}
FIVE = (0, 1, 2, 3, 4)
Builds = dict[str, Callable[[], TokenModel]]


# ------------------------------------------------------------ models

def backbone(width: int, layers: int, heads: int, max_length: int) -> TransformerConfig:
    """Matrices start at 0.5/√width, and the last ones of a sublayer are smaller by √layers."""
    std = 0.5 / math.sqrt(width)
    return TransformerConfig.benchmark(
        width=width, layers=layers, heads=heads, max_length=max_length,
        init_std=std, output_std=std / math.sqrt(layers))


def build(config: TransformerConfig, vocabulary: int, options: dict) -> TokenModel:
    return TokenModel(Transformer(config, "mgt", **options), vocabulary)


def watched(config: TransformerConfig, task: Task, evaluations: int, threshold: float,
            options: dict) -> TokenModel:
    """A model that keeps, by sublayer at each evaluation, what `betas_and_alphas` gives."""
    model = build(config, task.vocabulary, options)
    return watch(model, partial(betas_and_alphas, threshold), task, evaluations,
                 len(model.trunk.layers), 4, examples=64)


def betas_and_alphas(threshold: float, model: TokenModel, tokens: Tensor) -> Tensor:
    """By sublayer: β's mean, deviation and share below the threshold, and α."""
    def of(layer: Layer, state: Tensor) -> Tensor:
        beta = statistics_by_layer([layer.residual.coefficients(state).beta], threshold)
        return torch.cat([beta.mean, beta.std, beta.below, layer.residual.alpha.double()])
    return torch.stack(on_the_way(model, model.trunk.layers, tokens, of))


def ablation(task: Task, config: TransformerConfig) -> Builds:
    """The paper's four arms, pre-norm, with two controls.

    One is the standard model with a larger MLP, so that it has as many matrix entries as the full
    MGT. The other is the post-norm model.
    """
    controls = {"Standard, MLP 6D": replace(config, hidden=6 * config.width),
                "Standard, post-LN": replace(config, norm_at="post")}
    return {name: partial(build, config, task.vocabulary, options)
            for name, options in MGT_VARIANTS.items()} | {
        name: partial(build, control, task.vocabulary, STANDARD)
        for name, control in controls.items()}


def deep(task: Task, config: TransformerConfig, budget: Budget) -> Builds:
    """Post-norm stands here twice: as small at the start as all others, and large."""
    post, std = replace(config, norm_at="post"), config.width ** -0.5
    standard = {"Standard": config, "Standard, post-LN": post,
                "Standard, post-LN, large": replace(post, init_std=std, output_std=std)}
    signed = {"beta_offset": 0.0, "beta_init": 0.0, **MGT}
    evaluations = math.ceil(budget.steps / budget.evaluate_every)
    return {name: partial(build, its, task.vocabulary, STANDARD)
            for name, its in standard.items()} | {
        "MGT (Full)": partial(watched, config, task, evaluations, 1.0, MGT),
        "MGT, β in (−1, 1)": partial(watched, config, task, evaluations, 0.0, signed)}


def fixed_size(task: Task, parameters: float, layers: int, heads: int, max_length: int) -> Builds:
    """Models of the width nearest to what 12 width² per block allow, or 16 with both gates.

    The MLP takes up the rounding.
    """
    builds = {}
    for name, options in PAIR.items():
        gates = 4 if options["gate"] else 0
        width = heads * round(math.sqrt(parameters / layers / (12 + gates)) / heads)
        hidden = round((parameters / layers - (4 + gates) * width**2) / (2 * width))
        config = replace(backbone(width, layers, heads, max_length), hidden=hidden)
        builds[name] = partial(build, config, task.vocabulary, options)
    return builds


def language(task: Task, max_length: int) -> Builds:
    size = MGT_PROTOCOLS["mgt-language"]
    config = backbone(size.width, size.layers[0], size.heads, max_length)
    return {name: partial(build, config, task.vocabulary, options)
            for name, options in PAIR.items()}


def at_depths(depths: Iterable[int], builds: Callable[[int], Builds]) -> Builds:
    return {f"{name}, {layers} blocks": model
            for layers in depths for name, model in builds(layers).items()}


# ------------------------------------------------------------ measurements

def alphas(model: TokenModel) -> dict:
    residuals = [layer.residual for layer in model.trunk.layers]
    return {"alpha": [round(r.alpha.item(), 4) for r in residuals if r.erase]}


@torch.no_grad()
def ranks(task: Task, windows: int, model: TokenModel) -> dict:
    """Effective ranks of the states before and after each block, as means over windows.

    The rank is taken as defined and centred; beside it stands the share of a window's squared norm
    that centring leaves.
    """
    inputs = task.sample("validation").inputs[:windows]
    blocks = states(model, model.trunk.layers, inputs)[::2]
    measured = {"as defined": effective_rank, "centred": partial(effective_rank, center=True),
                "left by centring": left_by_centring}
    return {name: [float(f"{f(x).mean().item():.4g}") for x in blocks]
            for name, f in measured.items()}


def left_by_centring(x: Tensor) -> Tensor:
    return x.var(-2, correction=0).sum(-1) / x.square().mean(-2).sum(-1)


def profile(task: Task, windows: int, model: TokenModel) -> dict:
    found = {"rank": ranks(task, windows, model)}
    if hasattr(model, "seen"):
        noted = model.seen.mul(1e4).round().div(1e4).tolist()
        found["beta mean, std, share below, alpha"] = noted
    return found


def by_depth(builds: Builds, task: Task, budget: Budget, windows: int = 64, **search) -> list[Arm]:
    return comparison("rank", builds, task, budget, measure=partial(profile, task, windows),
                      untrained=partial(ranks, task, windows), **search)


# ------------------------------------------------------------ sizes

def small() -> list[Arm]:
    """The ablation's search has the length of its runs.

    Ranks and depths have one rate for all models, tuned for none.
    """
    text, long = Text(context=32), Text(context=64)
    copy = Copy(half=16, alphabet=32, validation=500)
    shape = {"heads": 2, "max_length": 64}
    rank = Budget(steps=240, batch=8, evaluate_every=60)
    sizes = at_depths((2, 4, 8, 16), partial(fixed_size, text, 1e5, **shape))
    return [*comparison("ablation", ablation(text, backbone(48, 4, **shape)), text,
                        Budget(steps=500, evaluate_every=100), rates=(5e-3, 1.2e-2),
                        search_steps=500, seeds=FIVE, measure=alphas),
            *by_depth(deep(long, backbone(32, 24, **shape), rank), long, rank, rates=(5e-3,)),
            *comparison("copy", ablation(copy, backbone(48, 2, **shape)), copy,
                        Budget(steps=300, evaluate_every=20), rates=(2e-3, 5e-3, 1.2e-2),
                        search_steps=60),
            *comparison("depth", sizes, text, Budget(steps=300, evaluate_every=150),
                        rates=(5e-3,))]


def medium() -> list[Arm]:
    """The paper's depths and width on the shipped text: 300 steps of 2048 bytes read it 2.5 times.

    Every search has full length. A step launches some 26 kernels per block of the standard model
    and 84 per block of the full MGT, at 10 µs each: 0.45 s for all arms of `rank`, whose 1500 steps
    per arm take 680 s; 600 s for the ablation's 4500; 140 s, 130 s and 50 s for depth, language and
    copy. That is 27 minutes one after another. The 3.5e16 operations in float32 take 20 at 30
    TFLOP/s, and the ranks take 18 on one core of the CPU. So it is half an hour with `--jobs 6`.
    """
    text, copy = Text(context=128), Copy(half=64)
    shape = {"heads": 4, "max_length": 128}
    budget = Budget(steps=300, batch=16, warmup=60, evaluate_every=75)
    of_all = {"rates": (3e-4, 1e-3, 3e-3), "search_steps": budget.steps}
    search = of_all | {"search_seeds": (0,)}
    deep_builds = at_depths(MGT_PROTOCOLS["mgt-rank"].layers, lambda layers: deep(
        text, backbone(256, layers, **shape), budget))
    sizes = at_depths((12, 24, 48), partial(fixed_size, text, 1e7, **shape))
    return [*comparison("ablation", ablation(text, backbone(256, 48, **shape)), text, budget,
                        **of_all, seeds=FIVE, measure=alphas),
            *by_depth(deep_builds, text, budget, windows=16, **search),
            *comparison("copy", ablation(copy, backbone(256, 12, **shape)), copy,
                        replace(budget, evaluate_every=20), **search),
            *comparison("depth", sizes, text, budget, **search),
            *comparison("language", language(text, max_length=128), text, budget, **search)]


def paper() -> list[Arm]:
    """The paper's protocols on bytes.

    An epoch of WikiText-2 has 10.9 million of them, one of WikiText-103 540 million.
    """
    rank, two, depth, five = (MGT_PROTOCOLS[f"mgt-{name}"]
                              for name in ("rank", "ablation", "depth", "language"))
    text, copy = Text("wikitext-2", context=256, size=11_000_000), Copy(half=64)
    more = Stream("wikitext-103", context=256, validation=1024)
    shape = {"heads": 4, "max_length": 256}
    # steps per epoch
    epoch, large = (size // (two.batch * 256) for size in (10_900_000, 540_000_000))
    budget = Budget(steps=two.epochs * epoch, batch=two.batch, warmup=epoch, evaluate_every=epoch)
    longer = Budget(steps=five.epochs * large, batch=two.batch, warmup=epoch, evaluate_every=large)
    search = {"rates": (3e-4, two.lr, 3e-3), "search_steps": epoch}
    deep_builds = at_depths(rank.layers, lambda layers: deep(
        text, backbone(rank.width, layers, **shape), budget))
    ablated = backbone(two.width, two.layers[0], **shape)
    sizes = at_depths(depth.layers, partial(fixed_size, text, depth.parameters, **shape))
    return [*comparison("ablation", ablation(text, ablated), text, budget, **search, seeds=FIVE,
                        measure=alphas),
            *by_depth(deep_builds, text, budget, **search),
            *comparison("copy", ablation(copy, ablated), copy, budget, **search),
            *comparison("depth", sizes, text, budget, **search),
            *comparison("language", language(more, max_length=256), more, longer, **search)]


# ------------------------------------------------------------ the file

def synergy(runs: Sequence[dict]) -> dict:
    """S of each seed on which all four arms ended, in nats, with its interval."""
    final = {(run["model"], run["seed"]): run["validation_loss"][-1]
             for run in runs if "validation_loss" in run}
    seeds = sorted({seed for _, seed in final
                    if all((name, seed) in final for name in MGT_VARIANTS)})
    standard, gate, erase, full = MGT_VARIANTS
    return seed_by_seed({
        seed: final[gate, seed] + final[erase, seed] - final[standard, seed] - final[full, seed]
        for seed in seeds})


def rank_slope(runs: Sequence[dict]) -> dict:
    """Model -> least-squares slope of the logarithm of the effective rank over blocks passed.

    The rank is the one "as defined".
    """
    slopes: dict[str, dict[int, float]] = {}
    for run in runs:
        if "measured" in run:
            logs = np.log(run["measured"]["rank"]["as defined"])
            slope = float(np.polyfit(np.arange(len(logs)), logs, 1)[0])
            slopes.setdefault(run["model"], {})[run["seed"]] = slope
    return {name: seed_by_seed(of_seeds) for name, of_seeds in slopes.items()}


def seed_by_seed(values: dict[int, float]) -> dict:
    """Rounded values; from two seeds on with mean and half width of the 95 % interval."""
    found = {f"seed {seed}": value for seed, value in values.items()}
    if len(values) > 1:
        mean, half = interval(list(values.values()))
        found |= {"mean": mean, "half width": half}
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def arrange(found: dict[str, dict], tasks: Mapping[str, Task], size: str) -> dict:
    """The comparisons, with what their runs were made for."""
    for run in found.get("rank", {}).get("runs", ()):
        if "untrained" in run:
            run["rank untrained"] = run.pop("untrained")
    derived = {}
    if "ablation" in found:
        derived["synergy"] = synergy(found["ablation"]["runs"])
    if "rank" in found:
        derived["rank slope"] = rank_slope(found["rank"]["runs"])
    return found | derived


STUDY = Study(
    "mgt",
    "Do the Manifold-Geometric Transformer's gates keep the rank over depth, gain more together "
    "than apart, and pay at a fixed size?",
    {"cpu": small, "gpu": medium, "paper": paper}, arrange)
