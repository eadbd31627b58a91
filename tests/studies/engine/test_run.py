"""A study is data: its parts can be trained one by one, side by side, and again, and agree."""

import hashlib
import os
import signal
from dataclasses import replace
from functools import partial

import pytest
from shared_studies import MAPS, TASK, fails, is_of, last_first, small_arms, small_study

from geolab.distributed import Engine
from geolab.tasks import Negation, corpora
from geolab.tasks.text import SAMPLE_SHA256, Corpus
from geolab.training import Budget
from studies.engine.arm import comparison
from studies.engine.jobs import side_by_side
from studies.engine.protocol import Protocol, Setting
from studies.engine.refusal import Refused
from studies.engine.run import Part, on_task, run_study, texts
from studies.experiments.registry import STUDIES

LONG = Protocol(rates=(1e-2, 1e-1), warmups=None, search_seeds=(7, 8, 9), seeds=(0, 1, 2),
                few=(0, 1), search_steps=5, widen=False,
                variations=("next best", "twice the steps"))


def both(**changes):
    """A comparison that is searched for, and one arm at a stated rate."""
    long = small_arms(LONG, "long", steps=20, evaluate_every=10, warmup=2)
    short = comparison("short", {"biased": MAPS["biased"]}, TASK, Budget(steps=4, warmup=1),
                       Protocol.stated(1e-2, (5,)))
    return [replace(arm, **changes) for arm in (*long, *short)]


TOY = small_study(both)


def lines(found, of="long"):
    return [{key: value for key, value in line.items() if key != "seconds_not_quoted"}
            for runs in (found[of]["runs"], *found[of]["sensitivity"].values()) for line in runs]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run_study(TOY, folder=tmp_path_factory.mktemp("whole"))


def test_the_content_is_each_comparison_by_name_and_says_how_it_was_made(whole):
    assert whole["command"] == "python -m studies toy --size cpu"
    assert whole["device"] == "cpu" and whole["processes"] == 1 and whole["unfinished"] == {}
    for part in ("long", "short"):
        arms = [arm for arm in both() if arm.part == part]
        assert is_of(whole[part], arms, {arm.name for arm in arms})
        assert whole["engine"][part]["precision"] == "float32"
    search, budget = whole["long"]["search"], whole["long"]["budget"]
    assert search["best"].keys() == search["next best"].keys() == MAPS.keys()
    assert len(search["runs"]) == 2 * 2 * 3
    assert budget["lr"] == "by search" and budget["warmup"] == 2


def test_a_part_is_that_part_of_the_whole(whole, tmp_path):
    part = run_study(TOY, part=Part(["biased"], [1]), folder=tmp_path)
    assert lines(part) == [line for line in lines(whole)
                           if (line["model"], line["seed"]) == ("biased", 1)]
    assert len(lines(part)) == 3
    best = [found["long"]["search"]["best"]["biased"] for found in (part, whole)]
    assert best[0] == best[1]  # it is searched for with all seeds
    assert "linear" not in part["long"]["parameters"]


def test_a_field_of_the_engine_takes_the_place_of_its_own_and_other_comparisons_stay_out(tmp_path):
    halved = small_study(lambda: both(engine=Engine(accumulate=2)))
    found = run_study(halved, part=Part(["linear"], [0], {"precision": "bfloat16"}),
                      folder=tmp_path)
    assert "short" not in found and found["engine"]["long"] == {
        "precision": "bfloat16", "accumulate": 2, "shard": False, "compile": False}


class Interrupts(Negation):
    """A task that interrupts the run at its 53rd loss, in the middle of a step.

    The six runs of the search have 8 losses each.
    """

    losses = 0

    def loss(self, prediction, target):
        Interrupts.losses += 1
        if Interrupts.losses == 53:
            os.kill(os.getpid(), signal.SIGINT)
        return super().loss(prediction, target)


def test_an_interrupted_run_goes_on_to_the_same_result(whole, tmp_path):
    stopped = small_study(lambda: both(task=Interrupts(dim=4, train=32, validation=16)))
    with pytest.raises(KeyboardInterrupt, match="the same call goes on from there"):
        run_study(stopped, folder=tmp_path)
    again = run_study(stopped, folder=tmp_path)
    for part in ("long", "short"):
        assert lines(again, part) == lines(whole, part)


def test_a_setting_takes_the_place_of_the_search():
    study = small_study(partial(small_arms, Protocol(seeds=(0, 1, 2), few=(0,)), steps=10))
    for warmup, steps in ((0.4, 4), (None, 1)):
        for arm in Part(setting=Setting(7e-3, warmup)).of(study, "cpu"):
            assert (arm.budget.lr, arm.budget.warmup) == (7e-3, steps)
            assert not arm.protocol.searches and arm.protocol.variations == ()
            assert arm.protocol.seeds == (0, 1, 2)


def test_jobs_are_processes_and_results_keep_their_order(tmp_path):
    items = [(k, tmp_path / "seen") for k in range(3)]
    assert side_by_side(last_first, items, 2) == [0, 1, 2]
    with pytest.raises(ValueError, match="the loss of 0 is not finite"):
        side_by_side(fails, [(0,), (0,)], 2)


# ---------------------------------------------------------------- another text

ON_TEXT = {(name, size): arms for name, study in STUDIES.items() for size in study.sizes
           if (arms := [arm for arm in study.arms(size) if isinstance(arm.task, Corpus)])}


@pytest.mark.parametrize("which", ON_TEXT)
def test_another_text_is_measured_on_too_or_refused_by_name(which, tmp_path):
    (tmp_path / "a.txt").write_text("a text of one's own")
    for arm in ON_TEXT[which]:
        other = replace(arm.task, corpus=str(tmp_path))
        try:
            moved = on_task(arm, other)
        except ValueError as problem:
            assert repr(arm.name) in str(problem) and not isinstance(arm.measure, partial)
            continue
        for measure in filter(None, (moved.measure, moved.untrained)):
            assert other in measure.args and arm.task not in measure.args
        assert moved.task == other


def test_a_file_says_which_text_was_read(tmp_path, monkeypatch):
    arms, study = ON_TEXT["released", "cpu"][:2], STUDIES["released"]
    assert texts(arms) == {"text": {"corpus": "sample", "sha256": SAMPLE_SHA256}}
    far = [replace(arm, task=replace(arm.task, corpus="wikitext-2")) for arm in arms]
    assert texts(far) == {"text": {"corpus": "wikitext-2"}}
    monkeypatch.setenv("GEOLAB_CACHE", str(tmp_path))
    with pytest.raises(Refused, match="make corpus NAME=king-james"):
        Part(corpus="king-james").of(study, "cpu")
    (tmp_path / "king-james").mkdir()
    (tmp_path / "king-james/king-james.txt").write_text("In the beginning\n")
    kept = hashlib.sha256(b"In the beginning\n").hexdigest()
    monkeypatch.setitem(corpora.PUBLISHED, "king-james",
                        corpora.PUBLISHED["king-james"]._replace(sha256=kept))
    moved = Part(arms=["additive"], corpus="king-james").of(STUDIES["delta_million"], "cpu")[0]
    assert moved.selects.corpus == moved.task.corpus == str(tmp_path / "king-james")
    moved = Part(arms=["additive"], corpus="king-james").of(study, "cpu")
    assert texts(moved) == {"text": {"corpus": "king-james", "sha256": kept}}
