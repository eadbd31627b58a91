"""A study is data: its parts can be trained one by one, side by side, and again, and agree."""

import os
import signal
import sys
from dataclasses import asdict, replace
from functools import partial
from types import SimpleNamespace

import pytest
from torch import nn

from geolab.distributed import Engine
from geolab.tasks import Negation
from geolab.training import Budget
from studies.engine import sources
from studies.engine.arm import comparison
from studies.engine.closure import code, imported
from studies.engine.jobs import side_by_side
from studies.engine.protocol import Protocol
from studies.engine.results import ROOT
from studies.engine.run import Part, Study, run_study
from studies.experiments.registry import STUDIES

TASK = Negation(dim=4, train=32, validation=16)


LONG = Protocol(rates=(1e-2, 1e-1), warmups=None, search_seeds=(7, 8, 9), seeds=(0, 1, 2),
                few=(0, 1), search_steps=5, widen=False,
                variations=("next best", "twice the steps"))


def toy():
    linear = partial(nn.Linear, 4, 4)
    builds = {"biased": linear, "linear": partial(linear, bias=False)}
    return [*comparison("long", builds, TASK, Budget(steps=20, evaluate_every=10, warmup=2), LONG),
            *comparison("short", {"biased": linear}, TASK, Budget(steps=4, warmup=1),
                        Protocol.stated(1e-2, (5,)))]


TOY = Study("toy", "Does it run?", {"cpu": toy})


def test_the_content_is_each_comparison_by_name(tmp_path):
    found = run_study(TOY, folder=tmp_path)
    assert found["command"] == "python -m studies toy --size cpu"
    assert found["device"] == "cpu" and found["processes"] == 1
    assert {(r["model"], r["seed"]) for r in found["long"]["runs"]} == {
        (name, seed) for name in ("biased", "linear") for seed in (0, 1, 2)}
    assert [(r["model"], r["seed"]) for r in found["short"]["runs"]] == [("biased", 5)]
    for which in ("best", "next best"):
        assert found["long"]["search"][which].keys() == {"biased", "linear"}
    assert len(found["long"]["search"]["runs"]) == 2 * 2 * 3
    assert found["engine"]["long"]["precision"] == "float32"


def test_a_comparison_says_by_which_protocol_it_was_made(tmp_path):
    found = run_study(TOY, folder=tmp_path)
    long, short = found["long"], found["short"]
    assert long["protocol"] == asdict(LONG) and long["seeds"] == [0, 1, 2]
    assert long["budget"]["lr"] == "by search" and long["budget"]["warmup"] == 2
    assert short["budget"]["lr"] == 1e-2 and short["sensitivity"] == {}
    assert {name: [(run["model"], run["seed"]) for run in runs]
            for name, runs in long["sensitivity"].items()} == dict.fromkeys(
                LONG.variations, [(name, seed) for name in ("biased", "linear") for seed in (0, 1)])
    searched = [replace(arm, protocol=replace(LONG, warmups=(0.1,)))
                for arm in toy() if arm.part == "long"]
    found = run_study(replace(TOY, sizes={"cpu": lambda: searched}), folder=tmp_path / "again")
    assert found["long"]["budget"]["warmup"] == "by search"


def test_an_arm_is_given_as_many_steps_as_take_the_time_of_the_first(tmp_path):
    place = tmp_path / "toy.cpu.cpu"
    place.mkdir()
    (place / "paces.json").write_text('{"long": {"biased": 1.0, "linear": 0.5}}')
    equal = [replace(arm, protocol=replace(LONG, variations=("equal time",)))
             for arm in toy() if arm.part == "long"]
    found = run_study(replace(TOY, sizes={"cpu": lambda: equal}), folder=tmp_path)["long"]
    assert found["pace"] == {"biased": 1.0, "linear": 0.5}
    assert [(run["model"], run["seed"], run["steps"])
            for run in found["sensitivity"]["equal time"]] == [("linear", 0, 40), ("linear", 1, 40)]


def lines(found, of="long"):
    return [{key: value for key, value in line.items() if key != "seconds_not_quoted"}
            for runs in (found[of]["runs"], *found[of]["sensitivity"].values()) for line in runs]


def test_a_part_is_that_part_of_the_whole(tmp_path):
    whole = run_study(TOY, folder=tmp_path / "a")
    part = run_study(TOY, part=Part(["biased"], [1]), folder=tmp_path / "b")
    assert lines(part) == [line for line in lines(whole)
                           if (line["model"], line["seed"]) == ("biased", 1)]
    assert len(lines(part)) == 3
    best = [found["long"]["search"]["best"]["biased"] for found in (part, whole)]
    assert best[0] == best[1]  # it is searched for with all seeds
    assert "linear" not in part["long"]["parameters"]


def test_an_arm_of_one_comparison_leaves_the_other_out(tmp_path):
    assert "short" not in run_study(TOY, part=Part(["linear"], [0]), folder=tmp_path)


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


def test_an_interrupted_run_goes_on_to_the_same_result(tmp_path):
    whole = run_study(TOY, folder=tmp_path / "a")
    task = Interrupts(dim=4, train=32, validation=16)
    stopped = replace(TOY, sizes={"cpu": lambda: [replace(arm, task=task) for arm in toy()]})
    with pytest.raises(KeyboardInterrupt, match="the same call goes on from there"):
        run_study(stopped, folder=tmp_path / "b")
    again = run_study(stopped, folder=tmp_path / "b")
    for part in ("long", "short"):
        assert lines(again, part) == lines(whole, part)


def test_a_field_of_the_engine_takes_the_place_of_its_own(tmp_path):
    halved = replace(TOY, sizes={
        "cpu": lambda: [replace(arm, engine=Engine(accumulate=2)) for arm in toy()]})
    part = Part(["linear"], [0], {"precision": "bfloat16"})
    assert run_study(halved, part=part, folder=tmp_path)["engine"]["long"] == {
        "precision": "bfloat16", "accumulate": 2, "shard": False, "compile": False}


@pytest.mark.parametrize("wrong, message", [
    ({"size": "gpu"}, "size must be one of 'cpu', got 'gpu'"),
    ({"part": Part(["cubic"])}, "arm must be one of 'biased', 'linear', got 'cubic'"),
    ({"part": Part(seeds=(0, 0))}, "seeds must differ, got 0, 0"),
    ({"part": Part(seeds=())}, r"seeds must hold at least one number, got \(\)"),
    ({"part": Part(corpus="texts")}, "corpus replaces the text of tasks on text, and this study"),
    ({"jobs": 0}, "jobs must be at least 1, got 0")])
def test_what_is_not_there_is_refused(wrong, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        run_study(TOY, folder=tmp_path, **wrong)


# ---------------------------------------------------------------- which code a checkpoint is of

def test_code_is_what_runs():
    plain = "def f(x):\n    return x + 1\n"
    told = 'def f(x):\n    """Add one."""\n    return (x +\n            1)  # one\n'
    assert code(plain) == code(told) != code(plain.replace("1", "2"))


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_stale_by_what_trains_it_and_by_nothing_that_reads(name):
    found = sources.files(STUDIES[name].arms(next(iter(STUDIES[name].sizes))))
    names = {path.relative_to(ROOT).as_posix() for path in found if path.is_relative_to(ROOT)}
    assert {"studies/engine/arm.py", "geolab/training.py", "geolab/models/backbone.py"} <= names
    assert not {path for path in names if path.startswith(("geolab/show", "geolab/probes"))}
    assert not names & {f"studies/{reader}.py" for reader in (
        "results", "live", "registry", "verdict", "protocol", "runner/run", "papers/measured")}


PROJECT = {
    "geolab/__init__.py": "", "geolab/training.py": "rate = 1",
    "geolab/tasks/__init__.py": "from geolab.tasks.own import Own",
    "geolab/tasks/own.py": "class Own: pass", "geolab/residuals/own.py": "scale = 1",
    "geolab/probes/own.py": "def measure(): pass",
    "studies/nets.py": "from geolab.residuals import own\nclass Net: pass",
    "studies/build.py": "import geolab.probes.own\ndef make(net):\n    return net()"}


@pytest.mark.parametrize("file, text, stale", [
    ("studies/build.py", f"{PROJECT['studies/build.py']}  # so", False),
    ("studies/nets.py", f'"""Networks."""\n{PROJECT["studies/nets.py"]}', False),
    ("geolab/tasks/other.py", "class Other: pass", False),
    ("geolab/residuals/other.py", "scale = 2", False),
    ("studies/other.py", "from studies import build", False),
    ("geolab/probes/own.py", "def measure(): return 1", False),
    ("studies/build.py", "def make(net):\n    return net().double()", True),
    ("studies/nets.py", "class Net: width = 2", True),
    ("geolab/residuals/own.py", "scale = 2", True),
    ("geolab/tasks/own.py", "class Own: noise = 1", True),
    ("geolab/training.py", "rate = 2", True)])
def test_code_is_other_code_when_what_trains_has_changed(file, text, stale, tmp_path, monkeypatch):
    """A comment, a file that nothing imports, and a probe change no weights."""
    monkeypatch.setattr("studies.engine.closure.ROOT", tmp_path)
    monkeypatch.setattr("studies.engine.sources.ROOT", tmp_path)
    for name, source in PROJECT.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)

    def made(name, file):
        """A class of one of these files."""
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(__file__=str(tmp_path / file)))
        return type(name, (), {"__module__": name})

    build = partial(made("Make", "studies/build.py"), made("Net", "studies/nets.py"))
    arms = [replace(toy()[0], build=build, task=made("Own", "geolab/tasks/own.py")())]
    imported.cache_clear()
    before = sources.of(arms)
    (tmp_path / file).write_text(text)
    imported.cache_clear()
    assert (sources.of(arms) != before) is stale
    imported.cache_clear()


def test_a_model_that_no_file_builds_is_refused():
    def build():
        return nn.Linear(4, 4)
    build.__module__ = "typed"  # as in a shell, where a module has no file
    with pytest.raises(ValueError, match="must be a function of a file.* got .*build of typed"):
        sources.of([replace(toy()[0], build=build)])


# ---------------------------------------------------------------- side by side

def test_jobs_are_processes_and_results_keep_their_order(tmp_path, monkeypatch):
    (tmp_path / "jobs_of_this_test.py").write_text(
        "import os, pathlib, time\n"
        f"SEEN = pathlib.Path({str(tmp_path / 'seen')!r})\n"
        "def wait(k):\n"
        "    while k == 0 and not SEEN.exists(): time.sleep(0.02)  # the first ends last\n"
        "    SEEN.touch()\n"
        "    return k, os.getpid()\n"
        "def fail(k):\n"
        "    if k == 0: raise ValueError('the loss is not finite')\n"
        "    return wait(k)\n")
    monkeypatch.syspath_prepend(tmp_path)
    import jobs_of_this_test as jobs
    found = side_by_side(jobs.wait, [(k,) for k in range(3)], 2)
    assert [k for k, _ in found] == [0, 1, 2]
    assert len({process for _, process in found} - {os.getpid()}) == 2
    with pytest.raises(ValueError, match="the loss is not finite"):
        side_by_side(jobs.fail, [(0,), (1,)], 2)


def test_the_registry_holds_each_study_under_its_own_name():
    assert all(study.name == name for name, study in STUDIES.items())
