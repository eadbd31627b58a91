"""Tables 8 and 9 of E-MHC-Geo again: where gates end that start elsewhere, and what the weight of their penalty does.

    near π, single and multi    γ starts at σ(bias); the penalty's weight is 0.5
    gyroscope                   γ starts at ½; the weights are 0 to 0.2

Small, the models are as published, which read the future. At the paper's size each has its causal form beside it.
"""

from collections.abc import Iterable
from functools import partial

from torch import Tensor, nn

from studies.runner.study import Experiment, Plan
from studies.emhc import DIFFERS, LAYERS, PUBLISHED, TASKS, on
from geolab.probes.shortcut import operators_by_layer
from studies.papers.measured import Number, over_seeds
from geolab.tasks import Task

BIASES = {"bias +3": 3.0, "bias +1.5": 1.5, "bias 0": 0.0, "bias -1.5": -1.5}                    # table 8 lacks the first
WEIGHTS = {"penalty 0": 0.0, "penalty 0.05": 0.05, "penalty 0.1": 0.1, "penalty 0.2": 0.2}       # table 9
BY_BIAS = {name: PUBLISHED | {"gate_bias": bias, "penalty": 0.5} for name, bias in BIASES.items()}
BY_WEIGHT = {name: PUBLISHED | {"penalty": weight} for name, weight in WEIGHTS.items()}
OPTIONS = {"near_pi_single": BY_BIAS, "near_pi_multi": BY_BIAS, "gyroscope": BY_WEIGHT}


def measure(task: Task, model: nn.Module) -> dict:
    """The gates by sublayer, over 64 validation sequences: their mean, and the share that is far from both 0 and 1."""
    gates = [layer.gate for layer in operators_by_layer(model, task.sample("validation").inputs[:64])]
    return {"gate mean": digits(gate.mean() for gate in gates),
            "gate between": digits(((gate > 0.2) & (gate < 0.8)).float().mean() for gate in gates)}


def digits(values: Iterable[Tensor]) -> list[float]:
    return [round(value.item(), 4) for value in values]


def plan(size: str) -> Plan:
    """Small: 36 runs of 300 steps, about 5 minutes on one core.

    At the paper's size 72 runs of 2000 steps: 144 000 steps of 10 to 20 ms on an H200 are 24 to 48 minutes one after another, and
    about 10 with --jobs 8.
    """
    comparisons = {}
    for name, arms in OPTIONS.items():
        if size == "paper":
            arms = arms | {f"{arm}, causal": options | {"pool": "causal"} for arm, options in arms.items()}
        gates = partial(measure, TASKS[size][name])
        comparisons[name] = on(size, name, {arm: ("emhc-hybrid", options) for arm, options in arms.items()}, LAYERS[size],
                               measure=gates, untrained=gates)
    return comparisons


def arrange(found: dict[str, dict], plan: Plan, budget: str) -> dict:
    """One entry a task, and tables 8 and 9 as far as their runs are there."""
    found = {name: content | {"floor": plan[name].task.bayes_floor(), "baselines": plan[name].task.baselines()}
             for name, content in found.items()}
    some = next(iter(found.values()))
    claims = [claim | {"differs": f"{DIFFERS[budget]} Deviations of γ are over the sublayers of all seeds."}
              for claim in (table_8(found), table_9(found)) if claim.get("rows")]
    return found | {"budget": some["budget"], "seeds": some["seeds"], "reproduces": claims}


GUESS = {"near_pi_single": "negate coordinates 0 and 1", "near_pi_multi": "negate the input"}


def table_8(found: dict[str, dict]) -> dict:
    """Where the gates of all sublayers and seeds start and end, and the loss."""
    rows, baselines = {}, {}
    for name in (name for name in GUESS if name in found):
        data = name.removeprefix("near_pi_")
        baselines |= {f"{data}, {guess}": found[name]["baselines"][guess] for guess in ("zero", GUESS[name])}
        for arm in ("bias +1.5", "bias 0", "bias -1.5"):
            if runs := trained(found[name], arm):
                rows[f"{data}, {arm.removeprefix('bias ')}"] = {
                    "γ at start": over_seeds([gate for run in runs for gate in run["untrained"]["gate mean"]]),
                    "γ at end": over_seeds([gate for run in runs for gate in run["measured"]["gate mean"]]), "MSE": loss(runs)}
    return {"table": "emhc-table-8", "rows": rows, "floor": 0.0, "baselines": baselines}


def table_9(found: dict[str, dict]) -> dict:
    """The loss, and the sublayers with the lowest and the highest mean gate."""
    if "gyroscope" not in found:
        return {}
    rows = {}
    for arm in WEIGHTS:
        if runs := trained(found["gyroscope"], arm):
            gates = [run["measured"]["gate mean"] for run in runs]
            rows[arm.removeprefix("penalty ")] = {"MSE": loss(runs), "lowest γ": over_seeds([min(means) for means in gates]),
                                                  "highest γ": over_seeds([max(means) for means in gates])}
    return {"table": "emhc-table-9", "rows": rows} | {name: found["gyroscope"][name] for name in ("floor", "baselines")}


def trained(content: dict, arm: str) -> list[dict]:
    return [run for run in content["runs"] if run["model"] == arm and "measured" in run]


def loss(runs: list[dict]) -> Number:
    return over_seeds([run["validation_loss"][-1] for run in runs])


EXPERIMENT = Experiment("Does a gate between rotation and reflection choose, or stay where it starts? Tables 8 and 9 of E-MHC-Geo",
                        {size: partial(plan, size) for size in ("cpu", "paper")}, arrange)
