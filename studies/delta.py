"""Deep Delta Learning on text and on the copy task: the paper's models with the kernels that its code starts from, and the
controls that its tables lack.

In the small runs each model has the learning rate that won its own search, and the search has the length of the runs: a rate
that wins a short race need not win a longer one.
"""

from collections.abc import Iterable
from dataclasses import asdict
from functools import partial

from geolab.distributed import Engine
from studies.runner.study import Comparison, Experiment, Plan
from geolab.models import TokenModel, Transformer, TransformerConfig
from geolab.probes.shortcut import operators_by_layer
from studies.papers.configurations import DDL_CONTROLS, DDL_SIZES, DDL_TRAINING, DDL_VARIANTS
from geolab.probes import statistics_by_layer
from geolab.tasks import Copy, Stream, Task, Text
from geolab.training import Budget

CONFIGS = {"cpu": TransformerConfig.ddl(width=32, layers=3, heads=4),
           "gpu": TransformerConfig.ddl(width=256, layers=6, heads=4, max_length=256),
           "paper": TransformerConfig.ddl(*DDL_SIZES["small"][:3], max_length=DDL_TRAINING["length"])}
MATRIX, TOKEN = DDL_VARIANTS["delta-matrix"]
CONTROLS = {"delta, write-only": ("delta", {"erase": False})} | {
    f"delta-matrix, {name}": (MATRIX, TOKEN | options) for name, options in DDL_CONTROLS.items()}
MODELS = {name: DDL_VARIANTS[name] for name in ("additive", "delta", "delta-matrix", "delta-matrix-ec", "delta-matrix-cc")} | CONTROLS
ON_COPY = ("additive", "delta, write-only", "delta", "delta-matrix, additive-matrix", "delta-matrix, write-only", "delta-matrix")

PUBLISHED = {"additive": "additive", "d_v = 1": "delta", "d_v = 4": "delta-matrix", "EC": "delta-matrix-ec", "CC": "delta-matrix-cc"}


def build(config: TransformerConfig, vocabulary: int, name: str) -> TokenModel:
    residual, options = MODELS[name]
    return TokenModel(Transformer(config, residual, **options), vocabulary)


def gates(task: Task, model: TokenModel) -> dict:
    """β by sublayer, over 64 validation sequences: mean, deviation and share below 1. Nothing for a model without β."""
    layers = operators_by_layer(model, task.sample("validation").inputs[:64])
    if not layers[0]:
        return {}
    beta = statistics_by_layer([layer.beta for layer in layers], threshold=1)
    return {f"beta {name}": [round(x, 4) for x in values.tolist()]
            for name, values in (("mean", beta.mean), ("std", beta.std), ("below 1", beta.below))}


def on(task: Task, config: TransformerConfig, names: Iterable[str], budget: Budget, **arguments) -> Comparison:
    models = {name: partial(build, config, task.vocabulary, name) for name in names}
    return Comparison(models, task, budget, **arguments, measure=partial(gates, task))


def small() -> Plan:
    rates = (1e-2, 3e-2, 1e-1, 3e-1)
    return {"text": on(Text(context=32), CONFIGS["cpu"], MODELS, Budget(steps=200, evaluate_every=100), rates=rates, search_steps=200),
            "copy": on(Copy(half=8, alphabet=16, validation=256), CONFIGS["cpu"], ON_COPY, Budget(steps=100, batch=32, evaluate_every=10),
                       rates=rates, search_steps=100)}


def medium() -> Plan:
    """5 million parameters, 16 384 bytes a step. No corpus is fetched: the sample is read 25 times over in 400 steps."""
    return {"text": on(Text(context=256), CONFIGS["gpu"], MODELS, Budget(steps=400, batch=64, warmup=50), rates=(1e-3, 3e-3, 1e-2),
                       search_steps=400, search_seeds=(0,)),
            "copy": on(Copy(half=32), CONFIGS["gpu"], ON_COPY, Budget(steps=1000, batch=64, warmup=50), rates=(1e-3, 3e-3),
                       search_steps=1000, search_seeds=(0,))}


def paper() -> Plan:
    """124 million parameters, 49 billion tokens a run, at the paper's one learning rate. It states one run a model; this has three."""
    of = DDL_TRAINING
    budget = Budget(**{name: of[name] for name in ("steps", "batch", "lr", "warmup", "weight_decay", "clip")}, evaluate_every=1000)
    task = Stream("fineweb-edu", context=of["length"], tokenizer="gpt2", validation=1024)
    return {"text": on(task, CONFIGS["paper"], MODELS, budget, rates=(of["lr"],), engine=Engine(precision="bfloat16", accumulate=15))}


DIFFERS = {
    "cpu": "Bytes instead of word pieces, so the unit is nats a byte. Width 32 and 3 blocks, about 50 thousand parameters. "
           "200 steps of 16 windows of 32 bytes, three seeds, and a learning rate searched for each model.",
    "gpu": "Bytes instead of word pieces, so the unit is nats a byte. Width 256 and 6 blocks, about 5 million parameters. "
           "400 steps of 64 windows of 256 bytes of one book, three seeds, and a learning rate searched for each model.",
    "paper": "Three seeds. Each block has two compressors, where the source shares one. The end of the cosine, which the source leaves "
             "open, is a tenth of the rate.",
}


def arrange(found: dict[str, dict], plan: Plan, budget: str) -> dict:
    """The text runs, with the copy task under "copy"."""
    found = {part: content | {"floor": plan[part].task.bayes_floor(), "baselines": plan[part].task.baselines()}
             for part, content in found.items()}
    return found.pop("text", {}) | found | {"transformer": asdict(CONFIGS[budget]), "reproduces": {
        "table": "ddl-table-3-loss", "models": PUBLISHED, "differs": DIFFERS[budget]}}


EXPERIMENT = Experiment("Deep Delta Learning with the controls that its tables lack: does erasing pay, or the wider state?",
                        {"cpu": small, "gpu": medium, "paper": paper}, arrange)
