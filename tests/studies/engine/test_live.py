"""A live cell shows its run in the band of the stored ones.

It raises only for what no machine produces by chance.
"""

import json
import math
import re

import pytest

from geolab.training import Budget, History
from studies.engine import live as module
from studies.engine import results
from studies.engine.live import LiveError, live, stored_runs

LABEL = re.compile(r"\blive\(\s*[\"'](\d\d)/([^\"']+)[\"']")


def history(*losses: float) -> History:
    return History("task", Budget(), 0, "cpu", evaluated_at=[10, 20],
                   validation_loss=list(losses))


@pytest.fixture
def stored(tmp_path, monkeypatch):
    """Chapter 99 has three cells, of three stored runs each."""
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    cells = {"losses": {"additive": {"at": [10, 20], "runs": [[4.0, 2.0], [4.2, 2.2], [3.9, 2.1]]},
                        "mhc": {"at": [10, 20], "runs": [[4.1, 1.0], [4.2, 1.5], [4.0, 1.2]]}},
             "same": {arm: {"at": None, "runs": [1.0, 1.0, 1.0]} for arm in "ab"},
             "gate": {"γ": {"at": None, "runs": [0.2, 0.3, 0.25]}}}
    results.record(tmp_path / "99.json", "made up", {"machines": [{}] * 3, "cells": cells})
    module._file.cache_clear()
    yield
    module._file.cache_clear()


def gate(**runs):
    return live("99/gate", runs, "gate", log=False)


def test_a_run_inside_its_band_is_said_to_be(stored):
    shown = live("99/losses", {"additive": history(4.0, 2.1), "mhc": history(4.0, 1.5)}, "loss")
    assert shown.outside == [] and shown.sentence == "This run is like the 3 stored ones."
    assert "additive 2.1, stored 2 to 2.2" in shown._repr_html_()


@pytest.mark.parametrize("log, inside, outside",
                         [(False, (0.151, 0.349), (0.149, 0.351)),
                          (True, (0.164, 0.367), (0.163, 0.368))])
def test_a_run_is_outside_when_further_than_half_the_range(stored, log, inside, outside):
    assert all(live("99/gate", {"γ": value}, "gate", log=log).outside == [] for value in inside)
    assert all(live("99/gate", {"γ": value}, "gate", log=log).outside == ["γ"] for value in outside)
    # what is stored is rounded to six digits
    assert live("99/same", {"a": 1.0000004, "b": 1.0001}, "gate", log=log).outside == ["b"]


def test_it_says_what_it_shows(stored):
    shown = gate(γ=0.6)
    assert "γ ends at 0.6, and the 3 stored runs end at 0.2 to 0.3" in shown.sentence
    assert shown.caption.startswith("Gate. Mark") and "γ 0.6" in shown._repr_html_()
    assert live("99/gate", {"γ": 0.25}, "γ at the end").caption.startswith("γ at the end. Mark")
    assert "There are no stored runs of: mine." in gate(mine=0.1, γ=0.25).sentence
    assert "There are no stored runs of: a." in live("98/new", {"a": 1.0}, "loss").sentence


def test_stored_runs_are_the_last_values_in_pairs(stored):
    runs = stored_runs("99/losses")
    assert runs["additive"].tolist() == [2.0, 2.2, 2.1]
    assert runs["mhc"].tolist() == [1.0, 1.5, 1.2]


@pytest.mark.parametrize("value, options, says", [
    (math.nan, {}, "not a number to go on with"), (math.inf, {}, "lower learning rate"),
    (0.5, {"floor": 1.0}, "below the floor 1.* Look for a leak"),
    (2.0, {"beats": 2.0}, "learned nothing"), (2.0, {"beats": {"γ": 1.5}}, "learned nothing")])
def test_what_no_machine_does_by_chance_raises(stored, value, options, says):
    with pytest.raises(LiveError, match=f"γ: loss .*{says}"):
        live("99/gate", {"γ": value}, "loss", **options)


@pytest.mark.parametrize("runs, options", [
    ({"γ": 0.95}, {"floor": 1.0}),     # a finite validation set
    ({"γ, leak": 0.1}, {"floor": 1.0}),
    ({"γ": 1.9, "other": 5.0}, {"beats": {"γ": 2.0}}), ({"γ": 100.0}, {})], ids=str)
def test_what_a_machine_can_do_does_not(stored, runs, options):
    assert live("99/gate", runs, "loss", **options).figure()


def test_what_it_shows_is_kept_where_the_environment_asks_for_it(stored, tmp_path, monkeypatch):
    monkeypatch.setenv(module.LOG, str(tmp_path / "log"))
    live("99/losses", {"mhc": history(4.0, 3.0)}, "loss")
    gate(γ=0.25)
    first, second = map(json.loads, (tmp_path / "log").read_text().splitlines())
    assert first == {"label": "99/losses", "runs": {"mhc": {"at": [10, 20], "run": [4.0, 3.0]}},
                     "outside": ["mhc"]}
    assert second["runs"]["γ"] == {"at": None, "run": 0.25} and second["outside"] == []


# ---------------------------------------------------------------- the book's cells

def labels() -> list[tuple[str, str, str]]:
    """(notebook, chapter, name) of every live cell."""
    found = []
    for path in sorted(results.ROOT.glob("notebooks/*.ipynb")):
        cells = json.loads(path.read_text())["cells"]
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        found += [(path.stem, chapter, name) for chapter, name in LABEL.findall(code)]
    return found


@pytest.mark.parametrize("notebook, chapter, name", labels(), ids=str)
def test_each_live_cell_of_the_book_has_its_stored_runs(notebook, chapter, name):
    """At least eight seeds, two instruction sets, and first weights an ulp away."""
    assert notebook.startswith(chapter)
    content = results.read(module.FOLDER / f"{chapter}.json")
    machines, arms = content["machines"], content["cells"][name]
    assert all(len(entry["runs"]) == len(machines) for entry in arms.values())
    assert len({machine["seeds"] for machine in machines}) >= 8
    assert len({machine["environment"].get("ATEN_CPU_CAPABILITY") for machine in machines}) >= 2
    assert len({machine["ulp"] for machine in machines}) >= 2


def test_nothing_is_stored_that_no_cell_shows():
    shown = {(chapter, name) for _, chapter, name in labels()}
    assert {(path.stem, name) for path in module.FOLDER.glob("*.json")
            for name in results.read(path)["cells"]} <= shown
