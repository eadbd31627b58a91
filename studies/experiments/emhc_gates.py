"""Tables 8 and 9 of E-MHC-Geo again: the ends of gates with other starts, and the effect of their
penalty's weight.

    near π, single and multi    γ starts at σ(bias); the penalty's weight is 0.5
    gyroscope                   γ starts at ½; the weights are 0 to 0.2

The models pool as published, so they read the future. The study `emhc_gates` has the book's form of
the block, with one net for u, v, β and k, in 32-bit numbers; `emhc_gates_published` has the public
code's four nets, in bfloat16 as there.
"""

from collections.abc import Mapping
from functools import partial

from geolab.distributed import Engine
from geolab.tasks import Task
from studies.claims.configurations import EMHC_BUDGET, EMHC_PUBLISHED
from studies.claims.repeated import Number, over_seeds
from studies.engine.arm import Arm, comparison
from studies.engine.run import Study
from studies.experiments.emhc import (
    DIFFERS,
    ENGINES,
    MEASURED,
    PROTOCOLS,
    PUBLISHED,
    SHORT,
    TASKS,
    builds,
    operators,
)

# Table 8 lacks the first bias; the weights are those of table 9
BIASES = {"bias +3": 3.0, "bias +1.5": 1.5, "bias 0": 0.0, "bias -1.5": -1.5}
WEIGHTS = {"penalty 0": 0.0, "penalty 0.05": 0.05, "penalty 0.1": 0.1, "penalty 0.2": 0.2}
BY_BIAS = {name: {"gate_bias": bias, "penalty": 0.5} for name, bias in BIASES.items()}
BY_WEIGHT = {name: {"penalty": weight} for name, weight in WEIGHTS.items()}
WITH_ONE_NET = (f"{MEASURED} 32-bit numbers, where its code trains in bfloat16. JPmHC has 128 "
                "features outside its streams, not 512, and one generator stands for the hybrid's "
                "four nets.")
OPTIONS = {"near_pi_multi": BY_BIAS, "near_pi_single": BY_BIAS, "gyroscope": BY_WEIGHT}


def arms(size: str, block: Mapping = PUBLISHED, engine: Engine = Engine()) -> list[Arm]:
    """Return the arms of a size, with `block` as the options of the block.

    The small size is near π in many planes, with each arm at its best setting.

    At the paper's size and its one rate, table 8 takes 36 000 steps and table 9 24 000. An H200, at
    10 to 20 ms a step, makes both in a quarter of an hour.
    """
    found = []
    for name, options in OPTIONS.items():
        if size == "cpu" and name != "near_pi_multi":
            continue
        if size == "paper":
            options = {arm: its for arm, its in options.items() if arm != "bias +3"}
        models = {arm: ("emhc-hybrid", block | its) for arm, its in options.items()}
        task = TASKS[size][name]
        found += comparison(name, builds(size, name, models), task,
                            EMHC_BUDGET if size == "paper" else SHORT,
                            PROTOCOLS[size]["near_pi_multi"], measure=partial(operators, task),
                            untrained=partial(operators, task), engine=engine)
    return found


def arrange(found: dict[str, dict], tasks: Mapping[str, Task], size: str,
            at_full_size: str = WITH_ONE_NET) -> dict:
    """Return one entry per task, and the rows of tables 8 and 9 whose runs exist."""
    found = {name: content | {"floor": tasks[name].bayes_floor(),
                              "baselines": tasks[name].baselines()}
             for name, content in found.items()}
    some = next(iter(found.values()))
    differs = at_full_size if size == "paper" else DIFFERS[size]
    told = f"{differs} Deviations of γ are over the sublayers of all seeds."
    claims = [claim | {"differs": told}
              for claim in (table_8(found), table_9(found)) if claim.get("rows")]
    return found | {"budget": some["budget"], "seeds": some["seeds"], "reproduces": claims}


GUESS = {"near_pi_single": "negate coordinates 0 and 1", "near_pi_multi": "negate the input"}


def table_8(found: dict[str, dict]) -> dict:
    """Return the start and the end of the gates of all sublayers and seeds, and the loss."""
    rows, baselines = {}, {}
    for name in (name for name in GUESS if name in found):
        data = name.removeprefix("near_pi_")
        baselines |= {f"{data}, {guess}": found[name]["baselines"][guess]
                      for guess in ("zero", GUESS[name])}
        for arm in ("bias +1.5", "bias 0", "bias -1.5"):
            if runs := trained(found[name], arm):
                rows[f"{data}, {arm.removeprefix('bias ')}"] = {
                    "γ at start": all_gates(runs, "untrained"),
                    "γ at end": all_gates(runs, "measured"), "MSE": loss(runs)}
    return {"table": "emhc-table-8", "rows": rows, "floor": 0.0, "baselines": baselines}


def table_9(found: dict[str, dict]) -> dict:
    """The loss, and the sublayers with the lowest and the highest mean gate."""
    if "gyroscope" not in found:
        return {}
    content, rows = found["gyroscope"], {}
    for arm in WEIGHTS:
        if runs := trained(content, arm):
            gates = [run["measured"]["gate"] for run in runs]
            rows[arm.removeprefix("penalty ")] = {
                "MSE": loss(runs), "lowest γ": over_seeds([min(means) for means in gates]),
                "highest γ": over_seeds([max(means) for means in gates])}
    return {"table": "emhc-table-9", "rows": rows,
            "floor": content["floor"], "baselines": content["baselines"]}


def trained(content: dict, arm: str) -> list[dict]:
    return [run for run in content["runs"] if run["model"] == arm and "measured" in run]


def all_gates(runs: list[dict], when: str) -> Number:
    return over_seeds([gate for run in runs for gate in run[when]["gate"]])


def loss(runs: list[dict]) -> Number:
    return over_seeds([run["validation_loss"][-1] for run in runs])


STUDY = Study(
    "emhc_gates",
    "Does a gate between rotation and reflection choose, or stay where it starts? Tables 8 and 9 "
    "of E-MHC-Geo",
    {size: partial(arms, size) for size in ("cpu", "paper")}, arrange)

AS_PUBLISHED = Study(
    "emhc_gates_published",
    "Tables 8 and 9 of E-MHC-Geo, with the public code's four nets in the block",
    {"paper": partial(arms, "paper", EMHC_PUBLISHED["emhc-hybrid-published"].options,
                      ENGINES["paper"])},
    partial(arrange, at_full_size=MEASURED))
