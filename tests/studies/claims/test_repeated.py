"""What results/ repeats of the papers' tables is read as written; what isn't there is named."""

import json

import pytest

from studies.claims import TABLES, repeats
from studies.claims.repeated import over_seeds
from studies.engine.results import FOLDER

RUN = {"budget": {"steps": 10, "batch": 4}, "seeds": [0, 1, 2], "device": "cpu", "floor": 1e-6,
       "baselines": {"copy": 2e-6},
       "runs": [{"model": "plain", "seed": seed, "validation_loss": [9.0, loss]}
                for seed, loss in enumerate((1.0, 2.0, 3.0))]}
COLUMN = {"table": "emhc-table-12", "row": "multi", "models": {"GPT": "plain"},
          "differs": "all of it"}
ROW = {"table": "ddl-table-3-loss", "models": {"additive": "plain"}, "differs": "size"}
OWN = {"table": "emhc-table-18", "rows": {"deviation": {"GPT": [0.5, None]}},
       "differs": "length", "floor": None, "baselines": {}}


def repeated(folder, reproduces, **changes):
    (folder / "run.json").write_text(json.dumps(RUN | {"reproduces": reproduces} | changes))
    return repeats(folder)


def test_a_file_repeats_columns_rows_and_numbers_of_its_own(tmp_path):
    column, row, own = repeated(tmp_path, [COLUMN, ROW, OWN])
    assert column.reported == {"GPT": {"multi": TABLES["emhc-table-12"].rows["multi"]["GPT"]}}
    assert column.ours == {"GPT": {"ours": (2.0, 1.0)}}
    assert (column.file, column.differs) == ("run.json", "all of it")
    assert column.budget == "10 steps of 4, 3 seeds, on cpu"
    assert (column.floor, column.baselines) == (1e-6, {"copy": 2e-6})
    assert row.reported == {"additive": TABLES["ddl-table-3-loss"].rows["additive"]}
    assert own.ours == {"deviation": {"GPT": (0.5, None)}}
    assert own.reported == {"deviation": {"GPT": (0.474, None)}}
    assert own.floor is None and own.baselines == {}  # the file's are of its losses
    assert over_seeds([0.5]) == (0.5, None)


@pytest.mark.parametrize("claim", [COLUMN, OWN])
def test_a_mean_comes_with_the_count_of_runs_that_stalled_or_diverged(tmp_path, claim):
    runs = [*RUN["runs"], {"model": "plain", "seed": 3, "diverged": True}]
    [found] = repeated(tmp_path, claim, runs=runs, baselines={"zero": 9.0}, protocol={},
                       parameters={"plain": 1})
    assert {arm: str(of) for arm, of in found.apart.items()} == {
        "plain": "1 of 4 diverged, 1 of 4 stalled"}


@pytest.mark.parametrize("change, missing", [
    ({"table": "emhc-table-99"}, "emhc-table-99"), ({"row": "triple"}, "triple"),
    ({"models": {"GPT": "fancy"}}, "fancy"), ({"models": {"BERT": "plain"}}, "BERT")])
def test_what_is_not_there_is_named(tmp_path, change, missing):
    message = f"run.json says that it reproduces '{missing}', which is not there"
    with pytest.raises(ValueError, match=message):
        repeated(tmp_path, COLUMN | change)


def test_our_own_results_say_what_differs_and_count_no_seeds_that_wait():
    found = {repeat.file: repeat for repeat in repeats(FOLDER)}
    for repeat in found.values():
        assert repeat.differs.endswith(".") and repeat.ours.keys() == repeat.reported.keys()
    waits = "emhc_gates_published.paper.json"
    content = json.loads((FOLDER / waits).read_text())
    seeds = {run["seed"] for run in content["near_pi_multi"]["runs"]}
    assert f"{len(seeds)} seed" in found[waits].budget and seeds <= set(content["seeds"])
