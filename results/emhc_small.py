"""Make results/emhc_small_*.json: `python results/emhc_small.py`, about 15 minutes on one core.

The E-MHC-Geo benchmark made small: its four sequence tasks and its five models as published, the causal form of each model that
reads the future, the hybrid without its gate penalty, its block without any operator, and mHC with a start near the plain network.
On echo every model runs in full at two learning rates, on the other tasks all run at one.
"""

from functools import partial
from pathlib import Path

from geolab import Budget
from geolab.compare import compare, record
from geolab.models import ContinuousModel, Transformer, TransformerConfig
from geolab.probes import future_influence, norm_drift
from geolab.tasks import Echo, Gyroscope, NearPi

HERE = Path(__file__).parent
PUBLISHED = {"pool": "sequence", "hidden_ratio": 1, "maps": "published", "start": "published", "gate_bias": 0.0}
TABLE_MODELS = {"GPT": "additive", "DDL": "delta, leak", "mHC": "mhc", "JPmHC": "jpmhc", "E-MHC-Geo": "hybrid, leak"}
MODELS = {  # name -> residual, blocks (so that all have 52 000 to 64 000 parameters), options
    "additive": ("additive", 5, {}),
    "delta, leak": ("benchmark-delta", 4, {"pool": "sequence"}),
    "delta": ("benchmark-delta", 4, {"pool": "causal"}),
    "mhc": ("benchmark-mhc", 4, {}),
    "mhc, near": ("benchmark-mhc", 4, {"diagonal": 8.0}),
    "jpmhc": ("benchmark-jpmhc", 2, {}),
    "hybrid, leak": ("emhc-hybrid", 3, PUBLISHED),
    "hybrid": ("emhc-hybrid", 3, PUBLISHED | {"pool": "causal"}),
    "hybrid, free": ("emhc-hybrid", 3, PUBLISHED | {"pool": "causal", "penalty": 0.0}),
    "maps only": ("emhc-cayley", 3, {"pool": "causal", "hidden_ratio": 1, "maps": "published", "start": "published"}),
}
TASKS = {  # name -> task, the paper's table and its row
    "echo": (Echo(dim=16, length=33), "emhc-table-6-stability", "stability"),
    "gyroscope": (Gyroscope(dim=16, length=33, train=2000, validation=200), "emhc-table-6-gyroscope", "gyroscope"),
    "near_pi_single": (NearPi(dim=16, length=33, validation=200), "emhc-table-12", "single"),
    "near_pi_multi": (NearPi(dim=16, length=33, validation=200, angle=3.14, planes=8), "emhc-table-12", "multi"),
}


def build(name: str) -> ContinuousModel:
    residual, layers, options = MODELS[name]
    config = TransformerConfig.benchmark(width=32, layers=layers, heads=4, max_length=32)
    model = ContinuousModel(Transformer(config, residual, **options), 16)
    for layer in model.trunk.layers:
        if name == "maps only":  # u = v = 0 gives Q = I, and no gradient to leave it
            for parameter in layer.residual.generator[-1].parameters():
                parameter.data.zero_()
    return model


def main() -> None:
    for name, (task, table, row) in TASKS.items():
        few = task.sample("validation").inputs[:4]
        found = compare({model: partial(build, model) for model in MODELS}, task, Budget(steps=300), seeds=(0, 1, 2),
                        rates=(2e-3, 6e-3) if name == "echo" else (6e-3,), search_steps=300, folder=f"runs/emhc_small/{name}",
                        measure=lambda model, x=few: {"future_influence": future_influence(model, x),
                                                      "norm_drift": norm_drift(model, 16, length=32)})
        record(HERE / f"emhc_small_{name}.json", f"the E-MHC-Geo benchmark made small: {name.replace('_', ' ')}", found | {
            "models": MODELS, "floor": task.bayes_floor(), "baselines": task.baselines(), "reproduces": {
                "table": table, "row": row, "models": TABLE_MODELS,
                "differs": "16 numbers a vector, 32 positions, width 32, a thirtieth of the parameters, and 300 steps of 16 sequences "
                           "instead of 2000 of 64."}})


if __name__ == "__main__":
    main()
