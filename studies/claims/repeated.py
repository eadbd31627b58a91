"""The papers' tables that `results/` repeats: the reported number and ours, side by side.

A result file that repeats a table has an entry "reproduces":

    "table"     a key of TABLES
    "differs"   the differences from the paper, in a sentence
    "models"    {a row or column of the table: our model's name}
    "row"       the row, if the models are columns

Our number is the last validation loss, as mean and deviation over seeds. A file that measures
something else gives its numbers under "rows": {row: {column: [mean, deviation]}}. It also gives
"unit", "floor" and "baselines" if those of the table or of the file don't apply. A file that
repeats several tables has a list of such entries.
"""

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from studies.claims.table import TABLES
from studies.engine.judge import Ends, ends

Number = tuple[float, float | None]  # a mean, and its deviation over seeds, or None if unknown


@dataclass(frozen=True)
class Repeat:
    """One reported table beside one result file."""

    table: str                                # a key of TABLES
    file: str                                 # in results/
    budget: str                               # in words
    differs: str
    reported: dict[str, dict[str, Number]]    # {model or row: {column: number}}
    # under the same names; one column "ours" if we have none of the paper's columns
    ours: dict[str, dict[str, Number]]
    unit: str                                 # the unit of our numbers
    floor: float | None
    baselines: dict[str, float]
    apart: dict[str, Ends]    # of our models with runs that diverged or stalled, on all seeds


def repeats(folder: str | Path) -> list[Repeat]:
    """Return the reported tables that the files of `folder` repeat, by file.

    Raises: ValueError for a file that names an unknown table, row or model.
    """
    found = []
    for path in sorted(Path(folder).glob("*.json")):
        content = json.loads(path.read_text())
        claims = content.get("reproduces", [])
        for claim in [claims] if isinstance(claims, dict) else claims:
            try:
                found.append(_repeat(path.name, content, claim))
            except KeyError as missing:
                raise ValueError(f"{path.name} says that it reproduces {missing}, which is not "
                                 "there") from missing
    return found


def over_seeds(values: Sequence[float]) -> Number:
    """Mean and sample deviation; a single value has no deviation.

    Raises: statistics.StatisticsError for no value.
    """
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else None


def _repeat(file: str, content: dict, claim: dict) -> Repeat:
    budget, table = content["budget"], TABLES[claim["table"]]
    reported: dict[str, dict[str, Number]] = {}
    ours: dict[str, dict[str, Number]] = {}
    if "rows" in claim:
        for row, columns in claim["rows"].items():
            reported[row] = {column: table.rows[row][column] for column in columns}
            ours[row] = {column: tuple(number) for column, number in columns.items()}
    else:
        for name, model in claim["models"].items():
            row = claim.get("row")
            reported[name] = {row: table.rows[row][name]} if row else table.rows[name]
            ours[name] = {"ours": _final_loss(content["runs"], model)}
    count = len(_seeds(content))
    words = (f"{budget['steps']} steps of {budget['batch']}, {count} seed{'s' * (count > 1)}, "
             f"on {content['device']}")
    return Repeat(claim["table"], file, words, claim["differs"], reported, ours,
                  claim.get("unit", table.unit), claim.get("floor", content.get("floor")),
                  claim.get("baselines", content.get("baselines", {})), _apart(content, claim))


def _apart(content: dict, claim: dict) -> dict[str, Ends]:
    """Count how the runs ended of each model some of whose runs stalled or diverged."""
    zero = content.get("baselines", claim.get("baselines", {})).get("zero", math.inf)
    named = set(claim.get("models", {}).values())
    found = {}
    for part in (content, *(part for part in content.values() if isinstance(part, dict))):
        for arm in part.get("parameters", ()) if "protocol" in part else ():
            if "rows" in claim or arm in named:
                found[arm] = ends(part["runs"], arm, zero)
    return {arm: of for arm, of in found.items() if str(of)}


def _seeds(content: dict) -> set[int]:
    """Return the reporting seeds with a finished run, or all of them if the file keeps no runs."""
    parts = [content, *(part for part in content.values() if isinstance(part, dict))]
    runs = [run for part in parts for run in part.get("runs", ())]
    planned = set(content["seeds"])
    return {run["seed"] for run in runs if "validation_loss" in run} & planned or planned


def _final_loss(runs: list[dict], model: str) -> Number:
    losses = [run["validation_loss"][-1] for run in runs
              if run["model"] == model and "validation_loss" in run]
    if not losses:
        raise KeyError(model)
    return over_seeds(losses)
