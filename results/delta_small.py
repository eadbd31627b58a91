"""Make results/delta_small.json: `python results/delta_small.py`, about a quarter of an hour on one core.

Deep Delta Learning made small, on text and on the copy task: the paper's models with the kernels that its code starts from,
and the controls that its tables lack, each at the learning rate that won its own search. Every model runs in full at every
rate with all seeds. An interrupted run goes on where it stopped, from checkpoints in runs/.
"""

from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from geolab import Budget
from geolab.compare import compare, record
from geolab.models import TokenModel, Transformer, TransformerConfig
from geolab.models.inspect import operators_by_layer
from geolab.papers.configurations import DDL_CONTROLS, DDL_VARIANTS
from geolab.probes import statistics_by_layer
from geolab.tasks import Copy, Task, Text

OUT = Path(__file__).with_suffix(".json")
CONFIG = TransformerConfig.ddl(width=32, layers=3, heads=4)
SEEDS, RATES = (0, 1, 2), (1e-2, 3e-2, 1e-1, 3e-1)

MATRIX, TOKEN = DDL_VARIANTS["delta-matrix"]
CONTROLS = {"delta, write-only": ("delta", {"erase": False})} | {
    f"delta-matrix, {name}": (MATRIX, TOKEN | options) for name, options in DDL_CONTROLS.items()}
MODELS = {name: DDL_VARIANTS[name] for name in ("additive", "delta", "delta-matrix", "delta-matrix-ec", "delta-matrix-cc")} | CONTROLS
ON_COPY = ("additive", "delta, write-only", "delta", "delta-matrix, additive-matrix", "delta-matrix, write-only", "delta-matrix")


def build(task: Task, residual: str, options: dict) -> TokenModel:
    return TokenModel(Transformer(CONFIG, residual, **options), task.vocabulary)


def gates(task: Task, model: TokenModel) -> dict:
    """β by sublayer, over 64 validation sequences: mean, deviation and share below 1. Nothing for a model without β."""
    layers = operators_by_layer(model, task.sample("validation").inputs[:64])
    if not layers[0]:
        return {}
    beta = statistics_by_layer([layer.beta for layer in layers], threshold=1)
    return {f"beta {name}": [round(x, 4) for x in values.tolist()]
            for name, values in (("mean", beta.mean), ("std", beta.std), ("below 1", beta.below))}


def measure(task: Task, models: Iterable[str], budget: Budget) -> dict:
    """The search has the length of the runs: a rate that wins a short race need not win a longer one."""
    found = compare({name: partial(build, task, *MODELS[name]) for name in models}, task, budget, seeds=SEEDS, rates=RATES,
                    search_steps=budget.steps, folder=f"runs/delta_small/{type(task).__name__}", measure=partial(gates, task))
    return found | {"floor": task.bayes_floor(), "baselines": task.baselines()}


if __name__ == "__main__":
    if OUT.exists():
        raise SystemExit(f"{OUT} is there; move it away to measure again")
    text = measure(Text(context=32), MODELS, Budget(steps=200, evaluate_every=100))
    copy = measure(Copy(half=8, alphabet=16, validation=256), ON_COPY, Budget(steps=100, batch=32, evaluate_every=10))
    record(OUT, "Deep Delta Learning made small, with controls: text, and the copy task under \"copy\"", text | {
        "copy": copy, "transformer": asdict(CONFIG), "reproduces": {
            "table": "ddl-table-3-loss",
            "models": {"additive": "additive", "d_v = 1": "delta", "d_v = 4": "delta-matrix", "EC": "delta-matrix-ec", "CC": "delta-matrix-cc"},
            "differs": "Bytes instead of word pieces, so the unit is nats a byte. Width 32 and 3 blocks, about 50 thousand parameters. "
                       "200 steps of 16 windows of 32 bytes, three seeds, and a learning rate searched for each model."}})
