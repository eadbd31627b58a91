"""Make results/mgt_small.json: `python results/mgt_small.py`, about twenty minutes on one core.

The experiments that the MGT paper plans and does not run, at a size that a CPU carries. An interrupted run goes on where it
stopped, from checkpoints in runs/. FULL takes the sizes of the paper's protocols: a GPU, WikiText-2 through the network, days.
"""

import math
from pathlib import Path

import torch

from geolab import Budget
from geolab.compare import compare, record
from geolab.models import TokenModel, Transformer, TransformerConfig
from geolab.models.inspect import operators_by_layer
from geolab.papers.configurations import MGT_PROTOCOLS, MGT_VARIANTS
from geolab.probes import effective_rank, states, statistics_by_layer
from geolab.tasks import Copy, Text

FULL = False
OUT = Path(__file__).with_suffix(".full.json" if FULL else ".json")
RUNS = Path("runs") / OUT.stem
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
STANDARD, MGT = MGT_VARIANTS["Standard"], MGT_VARIANTS["MGT (Full)"]

if FULL:
    rank, ablation, depth = (MGT_PROTOCOLS[f"mgt-{name}"] for name in ("rank", "ablation", "depth"))
    EPOCH = 10_900_000 // (256 * 64)  # steps: bytes of WikiText-2 over bytes of a batch
    TASKS = {"ablation": Text("wikitext-2", context=256, size=11_000_000), "copy": Copy(half=64),
             "rank": Text("wikitext-2", context=256, size=11_000_000)}
    WIDTH, LAYERS, HEADS, COPY_LAYERS = ablation.width, ablation.layers[0], 4, ablation.layers[0]
    RANK_WIDTH, RANK_LAYERS, DEPTHS, PARAMETERS = rank.width, rank.layers[-1], depth.layers, depth.parameters
    SEEDS, FEW = (0, 1, 2, 3, 4), (0, 1, 2)
    long = Budget(steps=50 * EPOCH, batch=64, warmup=EPOCH, evaluate_every=EPOCH)
    BUDGETS = {name: long for name in ("ablation", "copy", "rank", "depth")}
    SEARCH = {name: (EPOCH, (3e-4, ablation.lr, 3e-3)) for name in BUDGETS}
else:
    TASKS = {"ablation": Text(context=32), "copy": Copy(half=16, alphabet=32, validation=500), "rank": Text(context=64)}
    WIDTH, LAYERS, HEADS, COPY_LAYERS = 48, 4, 2, 2
    RANK_WIDTH, RANK_LAYERS, DEPTHS, PARAMETERS = 32, 24, (2, 4, 8, 16), 100_000
    SEEDS, FEW = (0, 1, 2, 3, 4), (0, 1, 2)
    BUDGETS = {"ablation": Budget(steps=500, evaluate_every=100), "copy": Budget(steps=300, evaluate_every=20),
               "rank": Budget(steps=240, batch=8, evaluate_every=60), "depth": Budget(steps=300, evaluate_every=150)}
    SEARCH = {"ablation": (500, (5e-3, 1.2e-2)), "copy": (60, (2e-3, 5e-3, 1.2e-2)), "rank": (1, (5e-3,)),
              "depth": (1, (5e-3,))}  # steps and rates: of full length for the ablation, no choice and so no search for rank and depth


def backbone(width: int, layers: int, **changes) -> TransformerConfig:
    """Matrices start at 0.5/√width, and the last ones of a sublayer are smaller by √layers."""
    std = 0.5 / math.sqrt(width)
    return TransformerConfig.benchmark(width=width, layers=layers, heads=HEADS, **{
        "max_length": max(task.sample("validation").inputs.shape[1] for task in TASKS.values()),
        "init_std": std, "output_std": std / math.sqrt(layers)} | changes)


def network(task, config: TransformerConfig, **options):
    """A function that builds the model, as `compare` takes it."""
    return lambda: TokenModel(Transformer(config, "mgt", **options), task.vocabulary).to(DEVICE)


# ------------------------------------------------------------ experiment 2, and the copy task

def arms(task, layers: int) -> dict:
    """The paper's four, pre-norm; the standard model with a larger MLP, so that it has as many matrix entries as the
    full MGT; and the post-norm control of the paper's text."""
    pre, post = backbone(WIDTH, layers), backbone(WIDTH, layers, norm_at="post")
    return {name: network(task, pre, **options) for name, options in MGT_VARIANTS.items()} | {
        "Standard, MLP 6D": network(task, backbone(WIDTH, layers, hidden=6 * WIDTH), **STANDARD),
        "Standard, post-LN": network(task, post, **STANDARD)}


def alphas(model: TokenModel) -> dict:
    residuals = [layer.residual for layer in model.trunk.layers]
    return {"alpha": [round(r.alpha.item(), 4) for r in residuals if r.erase]}


# ------------------------------------------------------------ experiments 1 and 3

class Watched(TokenModel):
    """Keeps β's mean, deviation and share below the threshold, and α, by sublayer at each evaluation; a checkpoint holds them."""

    def __init__(self, trunk: Transformer, vocabulary: int, evaluations: int, threshold: float):
        super().__init__(trunk, vocabulary)
        self.threshold = threshold
        self.register_buffer("seen", torch.zeros(evaluations, len(trunk.layers), 4, dtype=torch.double))
        self.register_buffer("count", torch.tensor(0))

    def forward(self, tokens):
        if not self.training and self.count < len(self.seen):
            layers = operators_by_layer(self.trunk, self.embedding(tokens[:64]))
            beta = statistics_by_layer([layer.beta for layer in layers], self.threshold)
            alpha = torch.stack([layer.residual.alpha.double() for layer in self.trunk.layers])
            self.seen[self.count] = torch.stack([beta.mean, beta.std, beta.below, alpha], dim=-1)
            self.count += 1
        return super().forward(tokens)


def deep_models() -> dict:
    task, evaluations = TASKS["rank"], BUDGETS["rank"].steps // BUDGETS["rank"].evaluate_every

    def watched(threshold: float, **options):
        trunk = backbone(RANK_WIDTH, RANK_LAYERS)
        return lambda: Watched(Transformer(trunk, "mgt", **options), task.vocabulary, evaluations, threshold).to(DEVICE)

    large = {"init_std": RANK_WIDTH ** -0.5, "output_std": RANK_WIDTH ** -0.5}
    return {"Standard": network(task, backbone(RANK_WIDTH, RANK_LAYERS), **STANDARD),
            "Standard, post-LN": network(task, backbone(RANK_WIDTH, RANK_LAYERS, norm_at="post"), **STANDARD),
            "Standard, post-LN, large": network(task, backbone(RANK_WIDTH, RANK_LAYERS, norm_at="post", **large), **STANDARD),
            "MGT (Full)": watched(1.0, **MGT),
            "MGT, β in (−1, 1)": watched(0.0, beta_offset=0.0, beta_init=0.0, **MGT)}


@torch.no_grad()
def ranks(model: TokenModel) -> dict:
    """Of the states before and after each block, a mean over 64 windows: the effective rank as defined and centred, and the
    share of a window's squared norm that centring leaves."""
    tokens = TASKS["rank"].sample("validation").inputs[:64].to(DEVICE)
    blocks = states(model, model.trunk.layers, tokens)[::2]
    measured = {"as defined": effective_rank, "centred": lambda x: effective_rank(x, center=True),
                "left by centring": lambda x: x.var(-2, correction=0).sum(-1) / x.square().mean(-2).sum(-1)}
    return {name: [float(f"{f(x).mean().item():.4g}") for x in blocks] for name, f in measured.items()}


def profile(model: TokenModel) -> dict:
    watched = {"beta mean, std, share below, alpha": model.seen.mul(1e4).round().div(1e4).tolist()} if isinstance(model, Watched) else {}
    return {"rank": ranks(model)} | watched


# ------------------------------------------------------------ experiment 4

def at_fixed_size(task, layers: int, options: dict):
    """The width nearest to what 12 (or, with both gates, 16) width² a block allow; the MLP takes up the rounding."""
    gates = 4 if options["gate"] else 0
    width = HEADS * round(math.sqrt(PARAMETERS / layers / (12 + gates)) / HEADS)
    hidden = round((PARAMETERS / layers - (4 + gates) * width**2) / (2 * width))
    return network(task, backbone(width, layers, hidden=hidden), **options)


def main() -> None:
    if OUT.exists():
        raise SystemExit(f"{OUT} is there; move it away to measure again")
    text, copy, deep = TASKS["ablation"], TASKS["copy"], deep_models()
    by_depth = {f"{name}, {layers} blocks": at_fixed_size(text, layers, options) for layers in DEPTHS
                for name, options in (("Standard", STANDARD), ("MGT (Full)", MGT))}
    parts = {"ablation": (arms(text, LAYERS), text, SEEDS, alphas),
             "rank": (deep, TASKS["rank"], FEW, profile),
             "copy": (arms(copy, COPY_LAYERS), copy, FEW, None),
             "depth": (by_depth, text, FEW, None)}
    found = {}
    for name, (models, task, seeds, measure) in parts.items():
        steps, rates = SEARCH[name]
        found[name] = compare(models, task, BUDGETS[name], seeds=seeds, rates=rates, search_steps=steps, folder=RUNS / name, measure=measure)
    for run in found["rank"]["runs"]:
        torch.manual_seed(run["seed"])
        run["rank untrained"] = ranks(deep[run["model"]]())
    record(OUT, "the experiments that the MGT paper plans, small: rank and β over depth, ablation, copy task, depth at a fixed number of parameters", found)


if __name__ == "__main__":
    main()
