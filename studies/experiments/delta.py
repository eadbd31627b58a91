"""Deep Delta Learning on text and on the copy task.

The models are the paper's, with the kernels that its code starts from, and the controls that its
tables lack. The size "paper" trains them as the public code has them (DDL_PUBLISHED).
"""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial

from geolab.distributed import Engine
from geolab.models import TokenModel, Transformer, TransformerConfig
from geolab.probes import operators_by_layer, statistics_by_layer
from geolab.tasks import Copy, Stream, Task, Text
from geolab.training import Budget
from studies.claims.configurations import (
    DDL_CONTROLS,
    DDL_PUBLISHED,
    DDL_SIZES,
    DDL_TRAINING,
    DDL_VARIANTS,
)
from studies.engine.arm import Arm, comparison
from studies.engine.decay import every_matrix_decays
from studies.engine.protocol import Protocol
from studies.engine.run import Study

CONFIGS = {"cpu": TransformerConfig.ddl(width=32, layers=3, heads=4),
           "gpu": TransformerConfig.ddl(width=256, layers=6, heads=4, max_length=256),
           "paper": TransformerConfig.ddl(*DDL_SIZES["small"][:3],
                                          max_length=DDL_TRAINING["length"])}
Models = Mapping[str, tuple[str, dict]]   # name -> residual and its options


def with_controls(variants: Models) -> Models:
    """Return the variants, their v-Maps, and their controls.

    In the v-Map, the paper's second map, the sublayer gives the value. The paper's code lacks it.
    """
    one, four = (variants[name][1] for name in ("delta", "delta-matrix"))
    return {**variants,
            "delta, v-Map": ("delta", one | {"map": "v", "value": "sigmoid"}),
            "delta-matrix, v-Map": ("delta-matrix", four | {"map": "v", "value": "linear"}),
            "delta, write-only": ("delta", one | {"erase": False}),
            **{f"delta-matrix, {name}": ("delta-matrix", _read(four | options))
               for name, options in DDL_CONTROLS.items()}}


def _read(options: dict) -> dict:
    """The options without the norm through which β reads, where β is fixed."""
    return {name: value for name, value in options.items()
            if name != "context" or options.get("beta_fixed") is None}


MODELS = with_controls(DDL_VARIANTS)
ON_COPY = {name: MODELS[name] for name in (
    "additive", "delta, write-only", "delta",
    "delta-matrix, additive-matrix", "delta-matrix, write-only", "delta-matrix")}

PUBLISHED = {"additive": "additive", "d_v = 1": "delta", "d_v = 4": "delta-matrix",
             "EC": "delta-matrix-ec", "CC": "delta-matrix-cc"}


def build(config: TransformerConfig, vocabulary: int, residual: str, options: dict) -> TokenModel:
    return every_matrix_decays(
        TokenModel(Transformer(config, residual, **options), vocabulary))


def gates(task: Task, model: TokenModel) -> dict:
    """Return β's mean, deviation and share below 1 by sublayer, over 64 validation sequences.

    The dictionary is empty for a model without β.
    """
    layers = operators_by_layer(model, task.sample("validation").inputs[:64])
    if not layers[0]:
        return {}
    beta = statistics_by_layer([layer.beta for layer in layers], threshold=1)
    named = (("mean", beta.mean), ("std", beta.std), ("below 1", beta.below))
    return {f"beta {name}": [round(x, 4) for x in values.tolist()] for name, values in named}


def on(part: str, task: Task, config: TransformerConfig, models: Models, budget: Budget,
       protocol: Protocol, **settings) -> list[Arm]:
    builds = {name: partial(build, config, task.vocabulary, residual, options)
              for name, (residual, options) in models.items()}
    return comparison(part, builds, task, budget, protocol, measure=partial(gates, task),
                      **settings)


def small() -> list[Arm]:
    protocol = Protocol(rates=(1e-2, 2e-2, 5e-2))
    copy = Copy(half=8, alphabet=16, validation=256)
    return [*on("text", Text(context=32), CONFIGS["cpu"], MODELS,
                Budget(steps=200, evaluate_every=50), protocol),
            *on("copy", copy, CONFIGS["cpu"], ON_COPY,
                Budget(steps=100, batch=32, evaluate_every=10), protocol)]


def medium() -> list[Arm]:
    """5 million parameters, 16 384 bytes per step.

    No corpus is fetched: the sample is read 25 times over in 400 steps.
    """
    protocol = Protocol(rates=(2e-3, 5e-3, 1e-2), warmups=(0.1,), search_seeds=(100,),
                        variations=())
    return [*on("text", Text(context=256), CONFIGS["gpu"], MODELS, Budget(steps=400, batch=64),
                protocol),
            *on("copy", Copy(half=32), CONFIGS["gpu"], ON_COPY, Budget(steps=1000, batch=64),
                protocol)]


def paper() -> list[Arm]:
    """124 million parameters and 49 billion tokens per run, at the paper's one learning rate.

    The paper states one run per model; here are three.
    """
    of = DDL_TRAINING
    stated = {name: of[name] for name in ("steps", "batch", "lr", "warmup", "weight_decay", "clip")}
    task = Stream("fineweb-edu", context=of["length"], tokenizer="gpt2", validation=1024)
    return on("text", task, CONFIGS["paper"], with_controls(DDL_PUBLISHED),
              Budget(**stated, evaluate_every=1000), Protocol.stated(of["lr"], seeds=(0, 1, 2)),
              engine=Engine(precision="bfloat16", accumulate=15))


DIFFERS = {
    "cpu": "Bytes instead of word pieces, so the unit is nats per byte. Width 32 and 3 blocks, "
           "about 50 thousand parameters. 200 steps of 16 windows of 32 bytes, sixteen seeds, and "
           "a learning rate and warm-up searched for each model.",
    "gpu": "Bytes instead of word pieces, so the unit is nats per byte. Width 256 and 6 blocks, "
           "about 5 million parameters. 400 steps of 64 windows of 256 bytes of one book, "
           "sixteen seeds, and a learning rate searched for each model.",
    "paper": "Three seeds. The standard parameterisation in the place of μP, whose multipliers the "
             "source doesn't state. 50,257 tokens, where the public code pads them to 50,304. The "
             "end of the cosine, which the source leaves open, is a tenth of the rate.",
}


def arrange(found: dict[str, dict], tasks: Mapping[str, Task], size: str) -> dict:
    """The text runs, with the copy task under "copy"."""
    found = {part: content | {"floor": tasks[part].bayes_floor(),
                              "baselines": tasks[part].baselines()}
             for part, content in found.items()}
    return found.pop("text", {}) | found | {
        "transformer": asdict(CONFIGS[size]),
        "reproduces": {"table": "ddl-table-3-loss", "models": PUBLISHED, "differs": DIFFERS[size]}}


STUDY = Study(
    "delta",
    "Deep Delta Learning with the controls that its tables lack: does erasing pay, or the wider "
    "state?",
    {"cpu": small, "gpu": medium, "paper": paper}, arrange)
