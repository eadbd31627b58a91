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


def write(folder, **claim):
    (folder / "run.json").write_text(json.dumps(RUN | {"reproduces": CLAIM | claim}))


def test_a_column_of_the_table_is_a_model_of_ours(tmp_path):
    write(tmp_path)
    [found] = repeats(tmp_path)
    assert found.reported == {"GPT": {"multi": TABLES["emhc-table-12"].rows["multi"]["GPT"]}}
    assert found.ours == {"GPT": {"ours": (2.0, 1.0)}}
    assert (found.file, found.budget, found.differs) == ("run.json",
                                                         "10 steps of 4, 3 seeds, on cpu",
                                                         "all of it")
    assert (found.floor, found.baselines) == (1e-6, {"copy": 2e-6})


def test_a_row_of_the_table_is_a_model_of_ours(tmp_path):
    claim = {"table": "ddl-table-3-loss", "models": {"additive": "plain"}, "differs": "size"}
    (tmp_path / "run.json").write_text(json.dumps(RUN | {"reproduces": claim}))
    [found] = repeats(tmp_path)
    assert found.reported == {"additive": TABLES["ddl-table-3-loss"].rows["additive"]}


def test_a_file_may_give_its_own_numbers(tmp_path):
    write(tmp_path, table="emhc-table-7", rows={"DDL beta": {"10": [1.4, 0.1]}})
    [found] = repeats(tmp_path)
    assert (found.ours == {"DDL beta": {"10": (1.4, 0.1)}}
            and found.reported["DDL beta"]["10"] == (1.40, None))


def test_a_file_may_repeat_several_tables(tmp_path):
    norms = {"table": "emhc-table-18", "rows": {"deviation": {"GPT": [0.5, None]}},
             "differs": "length", "floor": None, "baselines": {}}
    (tmp_path / "run.json").write_text(json.dumps(RUN | {"reproduces": [CLAIM, norms]}))
    losses, lengths = repeats(tmp_path)
    assert (losses.table, losses.floor) == ("emhc-table-12", 1e-6)
    assert (lengths.ours == {"deviation": {"GPT": (0.5, None)}}
            and lengths.reported["deviation"]["GPT"] == (0.474, None))
    assert lengths.floor is None and lengths.baselines == {}  # the file's are of its losses


@pytest.mark.parametrize("claim", [CLAIM, {"table": "emhc-table-12", "differs": "length",
                                           "rows": {"multi": {"GPT": [0.5, None]}}}])
def test_a_mean_comes_with_the_count_of_runs_that_stalled_or_diverged(tmp_path, claim):
    runs = [*RUN["runs"], {"model": "plain", "seed": 3, "diverged": True}]
    (tmp_path / "run.json").write_text(json.dumps(RUN | {
        "runs": runs, "baselines": {"zero": 9.0}, "reproduces": claim, "protocol": {},
        "parameters": {"plain": 1}}))
    [found] = repeats(tmp_path)
    assert {arm: str(of) for arm, of in found.apart.items()} == {
        "plain": "1 of 4 diverged, 1 of 4 stalled"}


@pytest.mark.parametrize("claim, missing",
                         [({"table": "emhc-table-99"}, "emhc-table-99"),
                          ({"row": "triple"}, "triple"),
                                            ({"models": {"GPT": "fancy"}}, "fancy"),
                                            ({"models": {"BERT": "plain"}}, "BERT")])
def test_what_is_not_there_is_named(tmp_path, claim, missing):
    write(tmp_path, **claim)
    with pytest.raises(ValueError,
                       match=f"run.json says that it reproduces '{missing}', which is not there"):
        repeats(tmp_path)


def test_a_file_that_repeats_nothing_is_passed_over(tmp_path):
    (tmp_path / "run.json").write_text(json.dumps(RUN))
    assert repeats(tmp_path) == []


def test_our_own_results_are_read_and_say_what_differs():
    for repeat in repeats(ROOT / "results"):
        assert repeat.differs.endswith(".") and repeat.ours.keys() == repeat.reported.keys()


def test_seeds_that_wait_are_not_counted():
    (found,) = (repeat for repeat in repeats(ROOT / "results")
                if repeat.file == "emhc_gates_published.paper.json")
    content = json.loads((ROOT / "results" / found.file).read_text())
    seeds = {run["seed"] for run in content["near_pi_multi"]["runs"]}
    assert f"{len(seeds)} seed" in found.budget and seeds <= set(content["seeds"])
