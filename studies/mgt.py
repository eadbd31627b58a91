"""The experiments that the Manifold-Geometric Transformer's paper plans and does not run.

    rank      1, effective rank over depth, and in its MGT models 3, which β is learned
    ablation  2, and its synergy S = L_gate + L_erase − L_standard − L_MGT (eq. 9)
    depth     4, depth at a fixed number of parameters
    language  5, equal width and depth
    copy      a task that the paper lists among its data, with the arms of 2

The paper's algorithm is pre-norm, and its text calls the standard control post-norm: both are here.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from studies.runner.study import Comparison, Experiment, Plan
from studies.runner.watch import on_the_way, watch
from geolab.models import TokenModel, Transformer, TransformerConfig
from geolab.models.backbone import Layer
from studies.papers.configurations import MGT_PROTOCOLS, MGT_VARIANTS
from geolab.probes import effective_rank, states, statistics_by_layer
from studies.results import interval
from geolab.tasks import Copy, Stream, Task, Text
from geolab.training import Budget

STANDARD, MGT = MGT_VARIANTS["Standard"], MGT_VARIANTS["MGT (Full)"]
PAIR = {"Standard": STANDARD, "MGT (Full)": MGT}
FIVE = (0, 1, 2, 3, 4)
Arms = dict[str, Callable[[], TokenModel]]


# ------------------------------------------------------------ models

def backbone(width: int, layers: int, heads: int, max_length: int) -> TransformerConfig:
    """Matrices start at 0.5/√width, and the last ones of a sublayer are smaller by √layers."""
    std = 0.5 / math.sqrt(width)
    return TransformerConfig.benchmark(width=width, layers=layers, heads=heads, max_length=max_length, init_std=std,
                                       output_std=std / math.sqrt(layers))


def build(config: TransformerConfig, vocabulary: int, options: dict) -> TokenModel:
    return TokenModel(Transformer(config, "mgt", **options), vocabulary)


def watched(config: TransformerConfig, task: Task, evaluations: int, threshold: float, options: dict) -> TokenModel:
    """Keeps β's mean, deviation and share below the threshold, and α, by sublayer at each evaluation."""
    model = build(config, task.vocabulary, options)
    return watch(model, partial(rates, threshold), task, evaluations, len(model.trunk.layers), 4, examples=64)


def rates(threshold: float, model: TokenModel, tokens: Tensor) -> Tensor:
    def of(layer: Layer, state: Tensor) -> Tensor:
        beta = statistics_by_layer([layer.residual.coefficients(state).beta], threshold)
        return torch.cat([beta.mean, beta.std, beta.below, layer.residual.alpha.double()])
    return torch.stack(on_the_way(model, model.trunk.layers, tokens, of))


def ablation(task: Task, config: TransformerConfig) -> Arms:
    """The paper's four, pre-norm; the standard model with a larger MLP, so that it has as many matrix entries as the full MGT;
    and the post-norm control."""
    controls = {"Standard, MLP 6D": replace(config, hidden=6 * config.width), "Standard, post-LN": replace(config, norm_at="post")}
    return {name: partial(build, config, task.vocabulary, options) for name, options in MGT_VARIANTS.items()} | {
        name: partial(build, control, task.vocabulary, STANDARD) for name, control in controls.items()}


def deep(task: Task, config: TransformerConfig, budget: Budget) -> Arms:
    """Post-norm twice: as small at the start as all others, and large."""
    post, std = replace(config, norm_at="post"), config.width ** -0.5
    standard = {"Standard": config, "Standard, post-LN": post,
                "Standard, post-LN, large": replace(post, init_std=std, output_std=std)}
    signed = {"beta_offset": 0.0, "beta_init": 0.0, **MGT}
    evaluations = math.ceil(budget.steps / budget.evaluate_every)
    return {name: partial(build, its, task.vocabulary, STANDARD) for name, its in standard.items()} | {
        "MGT (Full)": partial(watched, config, task, evaluations, 1.0, MGT),
        "MGT, β in (−1, 1)": partial(watched, config, task, evaluations, 0.0, signed)}


def fixed_size(task: Task, parameters: float, layers: int, heads: int, max_length: int) -> Arms:
    """Of the width nearest to what 12 (or, with both gates, 16) width² a block allow; the MLP takes up the rounding."""
    arms = {}
    for name, options in PAIR.items():
        gates = 4 if options["gate"] else 0
        width = heads * round(math.sqrt(parameters / layers / (12 + gates)) / heads)
        hidden = round((parameters / layers - (4 + gates) * width**2) / (2 * width))
        arms[name] = partial(build, replace(backbone(width, layers, heads, max_length), hidden=hidden), task.vocabulary, options)
    return arms


def language(task: Task, max_length: int) -> Arms:
    size = MGT_PROTOCOLS["mgt-language"]
    config = backbone(size.width, size.layers[0], size.heads, max_length)
    return {name: partial(build, config, task.vocabulary, options) for name, options in PAIR.items()}


def at_depths(depths: Iterable[int], arms: Callable[[int], Arms]) -> Arms:
    return {f"{name}, {layers} blocks": model for layers in depths for name, model in arms(layers).items()}


# ------------------------------------------------------------ measurements

def alphas(model: TokenModel) -> dict:
    residuals = [layer.residual for layer in model.trunk.layers]
    return {"alpha": [round(r.alpha.item(), 4) for r in residuals if r.erase]}


@torch.no_grad()
def ranks(task: Task, windows: int, model: TokenModel) -> dict:
    """Of the states before and after each block, a mean over windows: the effective rank as defined and centred, and the
    share of a window's squared norm that centring leaves."""
    blocks = states(model, model.trunk.layers, task.sample("validation").inputs[:windows])[::2]
    measured = {"as defined": effective_rank, "centred": partial(effective_rank, center=True),
                "left by centring": lambda x: x.var(-2, correction=0).sum(-1) / x.square().mean(-2).sum(-1)}
    return {name: [float(f"{f(x).mean().item():.4g}") for x in blocks] for name, f in measured.items()}


def profile(task: Task, windows: int, model: TokenModel) -> dict:
    found = {"rank": ranks(task, windows, model)}
    if hasattr(model, "seen"):
        found["beta mean, std, share below, alpha"] = model.seen.mul(1e4).round().div(1e4).tolist()
    return found


def by_depth(task: Task, arms: Arms, budget: Budget, windows: int = 64, **arguments) -> Comparison:
    measures = {"measure": partial(profile, task, windows), "untrained": partial(ranks, task, windows)}
    return Comparison(arms, task, budget, **measures, **arguments)


# ------------------------------------------------------------ plans

def small() -> Plan:
    """The ablation's search has the length of its runs. Ranks and depths have one rate for all, tuned for none."""
    text, long, copy = Text(context=32), Text(context=64), Copy(half=16, alphabet=32, validation=500)
    shape = {"heads": 2, "max_length": 64}
    of = {"ablation": Budget(steps=500, evaluate_every=100), "rank": Budget(steps=240, batch=8, evaluate_every=60),
          "copy": Budget(steps=300, evaluate_every=20), "depth": Budget(steps=300, evaluate_every=150)}
    return {"ablation": Comparison(ablation(text, backbone(48, 4, **shape)), text, of["ablation"], rates=(5e-3, 1.2e-2),
                                   search_steps=500, seeds=FIVE, measure=alphas),
            "rank": by_depth(long, deep(long, backbone(32, 24, **shape), of["rank"]), of["rank"], rates=(5e-3,)),
            "copy": Comparison(ablation(copy, backbone(48, 2, **shape)), copy, of["copy"], rates=(2e-3, 5e-3, 1.2e-2),
                               search_steps=60),
            "depth": Comparison(at_depths((2, 4, 8, 16), partial(fixed_size, text, 1e5, **shape)), text, of["depth"], rates=(5e-3,))}


def medium() -> Plan:
    """The paper's depths and width on the shipped text, 300 steps of 2048 bytes: 2.5 times over. Every search has full length.

    A step launches some 26 kernels a block of the standard model and 84 of the full MGT, at 10 µs each: 0.45 s for all arms of
    `rank`, whose 1500 steps an arm take 680 s; 600 s for the ablation's 4500; 140 s, 130 s and 50 s for depth, language and copy.
    That is 27 minutes one after another. The 3.5e16 operations in float32 take 20 at 30 TFLOP/s, and the ranks 18 on one core
    of the CPU. So half an hour, with `--jobs 6`.
    """
    text, copy = Text(context=128), Copy(half=64)
    shape = {"heads": 4, "max_length": 128}
    budget = Budget(steps=300, batch=16, warmup=60, evaluate_every=75)
    of_all = {"rates": (3e-4, 1e-3, 3e-3), "search_steps": budget.steps}
    search = of_all | {"search_seeds": (0,)}
    deep_arms = at_depths(MGT_PROTOCOLS["mgt-rank"].layers, lambda layers: deep(text, backbone(256, layers, **shape), budget))
    return {"ablation": Comparison(ablation(text, backbone(256, 48, **shape)), text, budget, **of_all, seeds=FIVE, measure=alphas),
            "rank": by_depth(text, deep_arms, budget, windows=16, **search),
            "copy": Comparison(ablation(copy, backbone(256, 12, **shape)), copy, replace(budget, evaluate_every=20), **search),
            "depth": Comparison(at_depths((12, 24, 48), partial(fixed_size, text, 1e7, **shape)), text, budget, **search),
            "language": Comparison(language(text, max_length=128), text, budget, **search)}


def paper() -> Plan:
    """The paper's protocols on bytes. An epoch of WikiText-2 has 10.9 million of them, one of WikiText-103 540 million."""
    rank, two, depth, five = (MGT_PROTOCOLS[f"mgt-{name}"] for name in ("rank", "ablation", "depth", "language"))
    text, copy = Text("wikitext-2", context=256, size=11_000_000), Copy(half=64)
    more = Stream("wikitext-103", context=256, validation=1024)
    shape = {"heads": 4, "max_length": 256}
    epoch, large = 10_900_000 // (two.batch * 256), 540_000_000 // (two.batch * 256)   # steps
    budget = Budget(steps=two.epochs * epoch, batch=two.batch, warmup=epoch, evaluate_every=epoch)
    search = {"rates": (3e-4, two.lr, 3e-3), "search_steps": epoch}
    deep_arms = at_depths(rank.layers, lambda layers: deep(text, backbone(rank.width, layers, **shape), budget))
    ablated = backbone(two.width, two.layers[0], **shape)
    return {"ablation": Comparison(ablation(text, ablated), text, budget, **search, seeds=FIVE, measure=alphas),
            "rank": by_depth(text, deep_arms, budget, **search),
            "copy": Comparison(ablation(copy, ablated), copy, budget, **search),
            "depth": Comparison(at_depths(depth.layers, partial(fixed_size, text, depth.parameters, **shape)), text, budget,
                                **search),
            "language": Comparison(language(more, max_length=256), more, Budget(
                steps=five.epochs * large, batch=two.batch, warmup=epoch, evaluate_every=large), **search)}


# ------------------------------------------------------------ the file

def synergy(runs: Sequence[dict]) -> dict:
    """S of each seed on which all four arms ended, in nats, with its interval."""
    final = {(run["model"], run["seed"]): run["validation_loss"][-1] for run in runs if "validation_loss" in run}
    seeds = sorted({seed for _, seed in final if all((name, seed) in final for name in MGT_VARIANTS)})
    standard, gate, erase, full = MGT_VARIANTS
    return seed_by_seed({seed: final[gate, seed] + final[erase, seed] - final[standard, seed] - final[full, seed] for seed in seeds})


def rank_slope(runs: Sequence[dict]) -> dict:
    """Model -> the slope by least squares of the logarithm of the effective rank, as defined, over blocks passed."""
    slopes = {}
    for run in runs:
        if "measured" in run:
            logs = np.log(run["measured"]["rank"]["as defined"])
            slopes.setdefault(run["model"], {})[run["seed"]] = float(np.polyfit(np.arange(len(logs)), logs, 1)[0])
    return {name: seed_by_seed(of_seeds) for name, of_seeds in slopes.items()}


def seed_by_seed(values: dict[int, float]) -> dict:
    """Rounded; from two seeds on with mean and half width of the 95 % interval."""
    found = {f"seed {seed}": value for seed, value in values.items()}
    if len(values) > 1:
        found |= zip(("mean", "half width"), interval(list(values.values())))
    return {name: float(f"{value:.4g}") for name, value in found.items()}


def arrange(found: dict[str, dict], plan: Plan, budget: str) -> dict:
    """The comparisons, and of their runs what they were made for."""
    for run in found.get("rank", {}).get("runs", ()):
        if "untrained" in run:
            run["rank untrained"] = run.pop("untrained")
    derived = {"synergy": synergy(found["ablation"]["runs"])} if "ablation" in found else {}
    return found | derived | ({"rank slope": rank_slope(found["rank"]["runs"])} if "rank" in found else {})


EXPERIMENT = Experiment("Do the Manifold-Geometric Transformer's gates keep the rank over depth, gain more together than apart, and "
                        "pay at a fixed size?", {"cpu": small, "gpu": medium, "paper": paper}, arrange)
