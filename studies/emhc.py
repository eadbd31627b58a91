"""The E-MHC-Geo benchmark: its four sequence tasks and its five models as published.

Beside them stand the causal form of each model that reads the future, the hybrid without its gate
penalty, its block without any operator, and mHC with a start near the plain network. Small, every
model runs in full at two learning rates on echo, and at one rate on the other tasks. At the paper's
size all run at the paper's one rate.
"""

from collections.abc import Callable, Mapping
from functools import partial

from torch import nn

from geolab.models import ContinuousModel, Transformer, TransformerConfig
from geolab.probes import future_influence, norm_drift
from geolab.tasks import Echo, Gyroscope, NearPi, Task
from geolab.training import Budget
from studies.papers.configurations import EMHC, EMHC_BUDGET, EMHC_SEEDS
from studies.papers.measured import over_seeds
from studies.runner.arm import Arm, comparison
from studies.runner.run import Study

Model = tuple[str, dict]  # a residual's name and its options
Builds = dict[str, Callable[[], ContinuousModel]]

PUBLISHED = EMHC["emhc-hybrid"].options
CAUSAL = PUBLISHED | {"pool": "causal"}
# what the block has whatever its operator
BLOCK = {name: CAUSAL[name] for name in ("pool", "hidden_ratio", "maps")}
MODELS: dict[str, Model] = {
    "additive": ("additive", {}),
    "delta, leak": ("benchmark-delta", {"pool": "sequence"}),
    "delta": ("benchmark-delta", {"pool": "causal"}),
    "mhc": ("benchmark-mhc", {}),
    "mhc, near": ("benchmark-mhc", {"diagonal": 8.0}),
    "jpmhc": ("benchmark-jpmhc", {}),
    "hybrid, leak": ("emhc-hybrid", PUBLISHED),
    "hybrid": ("emhc-hybrid", CAUSAL),
    "hybrid, free": ("emhc-hybrid", CAUSAL | {"penalty": 0.0}),
    "maps only": ("emhc-cayley", BLOCK | {"start": "published"}),
}
TABLE_MODELS = {"GPT": "additive", "DDL": "delta, leak", "mHC": "mhc", "JPmHC": "jpmhc",
                "E-MHC-Geo": "hybrid, leak"}

# Blocks by residual: models have 52 000 to 64 000 parameters, or about 1.8 million as in table 5
LAYERS = {
    "cpu": {"additive": 5, "benchmark-delta": 4, "benchmark-mhc": 4, "benchmark-jpmhc": 2,
            "emhc-hybrid": 3, "emhc-cayley": 3},
    "paper": {model.residual: model.backbone.layers for model in EMHC.values()}
             | {"emhc-cayley": 6},
}
SHAPE = {"cpu": {"width": 32, "heads": 4, "max_length": 32},
         "paper": {"width": 128, "heads": 4, "max_length": 256}}
TASKS = {
    "cpu": {"echo": Echo(dim=16, length=33),
            "gyroscope": Gyroscope(dim=16, length=33, train=2000, validation=200),
            "near_pi_single": NearPi(dim=16, length=33, validation=200),
            "near_pi_multi": NearPi(dim=16, length=33, validation=200, angle=3.14, planes=8)},
    "paper": {"echo": Echo(), "gyroscope": Gyroscope(), "near_pi_single": NearPi(),
              "near_pi_multi": NearPi.multi()},
}
TRAINING = {"cpu": Budget(steps=300), "paper": EMHC_BUDGET}
SEEDS = {"cpu": (0, 1, 2), "paper": EMHC_SEEDS}


def build(size: str, residual: str, options: dict, layers: int, dim: int) -> ContinuousModel:
    config = TransformerConfig.benchmark(layers=layers, **SHAPE[size])
    return ContinuousModel(Transformer(config, residual, **options), dim)


def without_operator(build: Callable[[], ContinuousModel]) -> ContinuousModel:
    """With u = v = 0, Q = I, and no gradient leads away from it."""
    model = build()
    for layer in model.trunk.layers:
        for parameter in layer.residual.generator[-1].parameters():
            nn.init.zeros_(parameter)
    return model


def measure(task: Task, model: nn.Module) -> dict:
    """What a model reads of the future, among the first 32 positions, and its norm deviation.

    Table 18 has the norm deviation on echo.
    """
    few = task.sample("validation").inputs[:4, :32]
    return {"future_influence": future_influence(model, few),
            "norm_drift": norm_drift(model, task.dim, length=min(100, task.length - 1))}


def builds(size: str, name: str, models: Mapping[str, Model], layers: Mapping[str, int]) -> Builds:
    """Models for a task of the benchmark."""
    dim = TASKS[size][name].dim
    return {arm: partial(build, size, residual, options, layers[residual], dim)
            for arm, (residual, options) in models.items()}


def on(size: str, name: str, models: Builds, **settings) -> list[Arm]:
    """Models on a task of the benchmark: its budget, its seeds, its search."""
    task, budget = TASKS[size][name], TRAINING[size]
    rates = (2e-3, 6e-3) if name == "echo" else (6e-3,)
    if size == "paper":
        rates = (EMHC_BUDGET.lr,)
    return comparison(name, models, task, budget, rates, seeds=SEEDS[size],
                      search_steps=budget.steps, **settings)


def arms(name: str, size: str) -> list[Arm]:
    """Small: a quarter of an hour on one core for the four tasks.

    At the paper's size a task takes 60 000 steps of models with 1.8 million parameters. A step has
    0.1 to 0.2 TFLOP, and its launches bound it: 10 to 20 ms on an H200 make 10 to 20 minutes one
    after another, and about 5 with --jobs 8.
    """
    models = builds(size, name, MODELS, LAYERS[size])
    models["maps only"] = partial(without_operator, models["maps only"])
    return on(size, name, models, measure=partial(measure, TASKS[size][name]))


DIFFERS = {
    "cpu": "16 numbers per vector, 32 positions, width 32, a thirtieth of the parameters, and 300 "
           "steps of 16 sequences instead of 2000 of 64.",
    "paper": "The last validation loss, over all validation sequences; the paper takes the best "
             "one, over 40 drawn batches each. 32-bit numbers, where its code trains in bfloat16. "
             "JPmHC has 128 features outside its streams, not 512, and one generator stands for "
             "the hybrid's four nets.",
}
NORMS_DIFFER = {"cpu": DIFFERS["cpu"], "paper": "The JPmHC is that of table 6; the paper has an "
                "earlier one here. 32-bit numbers."}
ROWS = {  # task -> the paper's table, its row, and the task in words
    "echo": ("emhc-table-6-stability", "stability", "echo"),
    "gyroscope": ("emhc-table-6-gyroscope", "gyroscope", "the gyroscope"),
    "near_pi_single": ("emhc-table-12", "single", "near π, single"),
    "near_pi_multi": ("emhc-table-12", "multi", "near π, multi"),
}


def arrange(name: str, found: dict[str, dict], tasks: Mapping[str, Task], size: str) -> dict:
    content, task = found[name], tasks[name]
    models = {arm: (residual, LAYERS[size][residual], options)
              for arm, (residual, options) in MODELS.items()}
    return content | {"models": models, "floor": task.bayes_floor(), "baselines": task.baselines(),
                      "reproduces": repeated(name, content["runs"], size)}


def repeated(name: str, runs: list[dict], size: str) -> list[dict]:
    """The task's row of table 6 or 12, and on echo table 18."""
    trained = {run["model"] for run in runs if "validation_loss" in run}
    models = {column: model for column, model in TABLE_MODELS.items() if model in trained}
    if not models:
        return []
    table, row, _ = ROWS[name]
    claims = [{"table": table, "row": row, "models": models, "differs": DIFFERS[size]}]
    if name == "echo":
        drifts = {column: over_seeds([run["measured"]["norm_drift"] for run in runs
                                      if run["model"] == model and "measured" in run])
                  for column, model in models.items()}
        claims.append({"table": "emhc-table-18", "rows": {"deviation": drifts}, "floor": None,
                       "baselines": {}, "unit": "deviation of the predictions' norm from 1",
                       "differs": NORMS_DIFFER[size]})
    return claims


def study(name: str) -> Study:
    return Study(f"emhc_{name}", "Do rotations help a Transformer that sees the same past? "
                 f"The E-MHC-Geo benchmark on {ROWS[name][-1]}",
                 {size: partial(arms, name, size) for size in TASKS}, partial(arrange, name))


ECHO, GYROSCOPE, NEAR_PI_SINGLE, NEAR_PI_MULTI = map(study, ROWS)
