"""What results/ repeats of the papers' tables is read as written; what isn't there is named."""

import json
from pathlib import Path

import pytest

from studies.claims import TABLES, repeats

ROOT = Path(__file__).resolve().parents[3]
RUN = {"budget": {"steps": 10, "batch": 4}, "seeds": [0, 1, 2], "device": "cpu", "floor": 1e-6,
       "baselines": {"copy": 2e-6},
       "runs": [{"model": "plain", "seed": seed, "validation_loss": [9.0, loss]}
                for seed, loss in enumerate((1.0, 2.0, 3.0))]}
CLAIM = {"table": "emhc-table-12", "row": "multi", "models": {"GPT": "plain"},
         "differs": "all of it"}


def repeated(folder, reproduces, **changes):
    (folder / "run.json").write_text(json.dumps(RUN | {"reproduces": reproduces} | changes))
    return repeats(folder)


def test_a_column_of_the_table_is_a_model_of_ours(tmp_path):
    [found] = repeated(tmp_path, CLAIM)
    assert found.reported == {"GPT": {"multi": TABLES["emhc-table-12"].rows["multi"]["GPT"]}}
    assert found.ours == {"GPT": {"ours": (2.0, 1.0)}}
    assert (found.file, found.differs) == ("run.json", "all of it")
    assert found.budget == "10 steps of 4, 3 seeds, on cpu"


def test_a_row_of_the_table_is_a_model_of_ours(tmp_path):
    [found] = repeated(tmp_path, {"table": "ddl-table-3-loss", "models": {"additive": "plain"},
                                  "differs": "size"})
    assert found.reported == {"additive": TABLES["ddl-table-3-loss"].rows["additive"]}


def test_a_file_may_give_its_own_numbers_and_repeat_several_tables(tmp_path):
    norms = {"table": "emhc-table-18", "rows": {"deviation": {"GPT": [0.5, None]}},
             "differs": "length", "floor": None, "baselines": {}}
    losses, lengths = repeated(tmp_path, [CLAIM, norms])
    assert (losses.table, losses.floor, losses.baselines) == ("emhc-table-12", 1e-6, {"copy": 2e-6})
    assert lengths.ours == {"deviation": {"GPT": (0.5, None)}}
    assert lengths.reported["deviation"]["GPT"] == (0.474, None)
    assert lengths.floor is None and lengths.baselines == {}  # the file's are of its losses


@pytest.mark.parametrize("claim", [CLAIM, {"table": "emhc-table-12", "differs": "length",
                                           "rows": {"multi": {"GPT": [0.5, None]}}}])
def test_a_mean_comes_with_the_count_of_runs_that_stalled_or_diverged(tmp_path, claim):
    runs = [*RUN["runs"], {"model": "plain", "seed": 3, "diverged": True}]
    [found] = repeated(tmp_path, claim, runs=runs, baselines={"zero": 9.0}, protocol={},
                       parameters={"plain": 1})
    assert {arm: str(of) for arm, of in found.apart.items()} == {
        "plain": "1 of 4 diverged, 1 of 4 stalled"}


@pytest.mark.parametrize("claim, missing", [
    ({"table": "emhc-table-99"}, "emhc-table-99"), ({"row": "triple"}, "triple"),
    ({"models": {"GPT": "fancy"}}, "fancy"), ({"models": {"BERT": "plain"}}, "BERT")])
def test_what_is_not_there_is_named_and_a_file_that_repeats_nothing_is_passed_over(
        tmp_path, claim, missing):
    message = f"run.json says that it reproduces '{missing}', which is not there"
    with pytest.raises(ValueError, match=message):
        repeated(tmp_path, CLAIM | claim)
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    assert repeats(tmp_path) == []


def test_our_own_results_say_what_differs_and_count_no_seeds_that_wait():
    found = {repeat.file: repeat for repeat in repeats(ROOT / "results")}
    for repeat in found.values():
        assert repeat.differs.endswith(".") and repeat.ours.keys() == repeat.reported.keys()
    waits = "emhc_gates_published.paper.json"
    content = json.loads((ROOT / "results" / waits).read_text())
    seeds = {run["seed"] for run in content["near_pi_multi"]["runs"]}
    assert f"{len(seeds)} seed" in found[waits].budget and seeds <= set(content["seeds"])
