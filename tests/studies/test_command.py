"""The command: what a newcomer types, what it refuses before training, and what it writes.

Run as a program, this file is the command with the studies of this file.
"""

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from shared_studies import TASK, small_arms
from torch import nn

from geolab.models import TokenModel, Transformer, TransformerConfig
from geolab.tasks import Negation, Text
from geolab.tasks.stream import Stream
from geolab.training import Budget
from studies import findings, ledger
from studies.__main__ import main
from studies.claims.hypothesis import HYPOTHESES, Hypothesis
from studies.engine.arm import comparison
from studies.engine.jobs import _work
from studies.engine.judge import Claim
from studies.engine.protocol import Protocol
from studies.engine.results import digest, read
from studies.engine.run import Study
from studies.experiments.real_network import network
from studies.experiments.registry import MEASUREMENTS, STUDIES

STATED = Protocol.stated(1e-2, (0, 1, 2))
toy = partial(small_arms, STATED, "only", steps=12, evaluate_every=6)


def on_text(task):
    config = TransformerConfig.ddl(width=8, layers=1, heads=2)
    builds = {"additive": lambda: TokenModel(Transformer(config), 256)}
    return comparison("text", builds, task, Budget(steps=4, batch=2, warmup=2),
                      Protocol.stated(1e-3, (0,)))


def endless():
    builds = {name: partial(nn.Linear, 4, 4) for name in ("one", "two", "three")}
    return comparison("only", builds, TASK, Budget(steps=10**7), Protocol.stated(1e-3, (0,)))


ROOT = Path(__file__).resolve().parents[2]
ALONE = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
TOYS = {name: Study(name, question, {"cpu": arms}) for name, question, arms in (
    ("toy", "Does it run?", toy), ("endless", "When will it end?", endless),
    ("stream", "Which text?", lambda: on_text(Stream("fineweb-edu", context=6, validation=5))),
    ("far", "Is there a network?",
     lambda: on_text(Text("wikitext-2", context=6, size=1000))))}


@pytest.fixture(autouse=True)
def in_a_folder_with_toys(monkeypatch, tmp_path):
    for name, study in TOYS.items():
        monkeypatch.setitem(STUDIES, name, study)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("signal.signal", lambda *_: None)


def refused(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    assert stopped.value.code == 2
    return capsys.readouterr().err


REFUSED = [
    ("toys", "study must be one of"),
    ("toy --seeds 0", "give --out a file of its own"),
    ("toy --lr 0.1", "give --out a file of its own"),
    ("toy --out nowhere/toy.json", "--out must be a file in a folder that is there"),
    ("toy --lr 0.1 --out .", "Is a directory"),
    ("delta", "is there, and is not overwritten"),
    ("toy --check --out toy.json", "No such file"),
    ("toy --size gpu --out toy.json", "size must be one of 'cpu', got 'gpu'"),
    ("toy --budget gpu --out toy.json", "size must be one of 'cpu', got 'gpu'"),  # an earlier name
    ("toy --accumulate -1 --dry-run", "accumulate must be at least 1, got -1"),
    ("toy --accumulate 3 --out toy.json", "got batch 16, 1 processes and accumulate 3"),
    ("toy --out toy.json --warmup 0.4", "--warmup needs --lr"),
    ("toy --out toy.json --lr -1", "--lr must be positive, got -1"),
    ("toy --out toy.json --lr 0.1 --warmup 2",
     "--warmup must be a share of the steps, from 0 to 1, got 2"),
    ("stream --corpus texts", "is not stream.cpu.json"),
    ("real --out x.json", "make model"),
    ("real --out x.json --seeds 1", "for studies that train"),
]


@pytest.mark.parametrize("arguments, message", REFUSED, ids=[asked for asked, _ in REFUSED])
def test_a_refusal_comes_before_training(arguments, message, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("GEOLAB_CACHE", str(tmp_path))
    network.cache_clear()
    monkeypatch.setattr("studies.engine.run.side_by_side", lambda *_: pytest.fail("trained"))
    assert message in refused(capsys, *arguments.split())


def test_without_a_name_it_lists_questions(capsys):
    assert main([]) == 0
    first, *listed = capsys.readouterr().out.splitlines()
    assert first.split() == ["name", "sizes", "question"]
    for name, study in (STUDIES | MEASUREMENTS).items():
        assert any(line.split()[0] == name and study.question in line for line in listed), name


def test_it_writes_once_and_says_what_makes_it_again(capsys):
    made = ["toy", "--out", "toy.json", "--arm", "linear", "--seeds", "1", "--accumulate", "2"]
    assert main(made) == 0
    kept = read("toy.json")
    assert kept["experiment"] == "Does it run?" and len(kept["only"]["runs"]) == 1
    assert (kept["command"]
            == "python -m studies toy --size cpu --arm linear --seeds 1 --accumulate 2")
    assert "toy.json is there, and is not overwritten" in refused(capsys, *made)
    assert main([*made, "--force", "a second look"]) == 0
    assert read("toy.json")["replaced"] == "a second look"


def test_at_a_setting_of_ones_own_it_says_what_the_rows_would_say(monkeypatch, capsys):
    row = Hypothesis("toy-bias", "this book", "", "A bias helps.", "11_mgt", "toy", "only",
                     claim=Claim({"linear": 1, "biased": -1}))
    for module in (ledger, findings):
        monkeypatch.setattr(module, "HYPOTHESES", [*HYPOTHESES, row])
    assert main(["toy", "--lr", "7e-3", "--warmup", "0.4", "--out", "toy.json"]) == 0
    assert "--lr 0.007 --warmup 0.4" in read("toy.json")["command"]
    assert "toy-bias: " in capsys.readouterr().out


def broken(place, error):
    """The toy with an error in code that its author wrote."""
    def fails(*_, **__):
        raise error

    if place == "sizes":
        return replace(TOYS["toy"], sizes={"cpu": fails})
    if place == "arrange":
        return replace(TOYS["toy"], arrange=fails)
    change = {place: fails}
    if place == "loss":
        spoilt = type("Spoilt", (Negation,), {"loss": fails})
        change = {"task": spoilt(dim=4, train=32, validation=16)}
    if place == "forward":
        change = {"build": partial(type("Broken", (nn.Linear,), {"forward": fails}), 4, 4)}
    return replace(TOYS["toy"], sizes={"cpu": lambda: [replace(arm, **change) for arm in toy()]})


TRAIN, COUNT = ["--out", "toy.json"], ["--dry-run"]


@pytest.mark.parametrize("place, asked", [
    *((place, TRAIN) for place in ("sizes", "build", "forward", "loss", "measure", "arrange")),
    *((place, COUNT) for place in ("sizes", "build", "forward", "loss"))], ids=str)
def test_an_error_in_a_model_a_task_or_a_study_keeps_its_traceback(place, asked, monkeypatch):
    for error in (ValueError("a"), ImportError("b"), OSError("c")):
        monkeypatch.setitem(STUDIES, "toy", broken(place, error))
        with pytest.raises(type(error)) as raised:
            main(["toy", "--folder", f"runs-{type(error).__name__}", *asked])
        assert raised.value is error


def test_checkpoints_of_other_code_are_no_measurement_of_this_one(capsys):
    assert main(["toy", "--out", "toy.json"]) == 0
    Path("runs/toy.cpu.cpu/sources").write_text("edited")
    assert "holds checkpoints that other code made" in refused(capsys, "toy", "--out", "again.json")
    assert main(["toy", "--out", "again.json", "--force", "a message was reworded"]) == 0
    assert read("again.json")["forced"]["sources of checkpoints"] == "edited"
    # a check trains in a folder of its own
    assert main(["toy", "--check", "--out", "toy.json"]) == 0 and not Path("runs/again").exists()


def test_a_folder_of_text_takes_the_place_of_what_is_streamed():
    Path("texts").mkdir()
    for number in range(9):
        text = f"{number} is the number of this one. "
        Path(f"texts/{number}.txt").write_text(text * (number + 1))
    assert main(["stream", "--corpus", "texts", "--out", "stream.json"]) == 0
    kept = read("stream.json")
    assert "corpus='texts'" in kept["text"]["task"] and kept["command"].endswith("--corpus texts")


def test_a_dry_run_counts_and_trains_nothing(capsys, tmp_path):
    assert main(["toy", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    biased = next(line for line in shown.splitlines() if line.split()[:1] == ["biased"]).split()
    assert biased[1:4] == ["20", "3", "36"]
    # forward and the weight's gradient, 2 d² each
    assert float(biased[4]) == pytest.approx(36 * 16 * 4 * 4 * 4 / 1e12, rel=0.01)
    assert not list(tmp_path.rglob("*.pt")) and not list(tmp_path.rglob("*.json"))


def test_without_a_corpus_a_dry_run_counts_and_a_run_says_what_is_missing(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)  # as if not installed
    assert main(["far", "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "random tokens in place of the text" in shown and "All of it, one after another" in shown
    assert 'pip install "geolab[text]"' in refused(capsys, "far", "--out", "far.json")


def test_check_compares_and_fails_where_a_result_differs(capsys):
    main(["toy", "--out", "toy.json"])
    assert (main(["toy", "--check", "--out", "toy.json", "--arm", "linear", "--seeds", "1",
                  "--folder", "again"]) == 0)
    shown = capsys.readouterr().out
    assert "0.00e+00  only, runs, model linear, seed 1" in shown and "1 runs made again" in shown
    content = read("toy.json")
    for run in content["only"]["runs"]:
        run["validation_loss"][-1] *= 1.1
    content["sha256"] = digest(content)
    Path("toy.json").write_text(json.dumps(content))
    assert main(["toy", "--check", "--out", "toy.json"]) == 1
    assert "beyond 0.02" in capsys.readouterr().out


@pytest.fixture
def three_by_two(tmp_path):
    """A command with three endless arms and two processes.

    Its value waits until so many arms are under way.
    """
    command = [sys.executable, __file__, "endless", "--jobs", "2", "--out", "endless.json"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env=ALONE)

    def until(under_way):
        while len(list(tmp_path.rglob("*.pt"))) < under_way:
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.02)
        return process

    yield until
    process.kill()


@pytest.mark.parametrize("under_way", [1, 2])  # at one, the other process may still be on its way
def test_an_interruption_ends_every_job_and_begins_none(three_by_two, under_way):
    process = three_by_two(under_way)
    process.send_signal(signal.SIGINT)
    shown = process.communicate(timeout=300)[0]
    assert process.returncode == 130 and "The same command goes on" in shown
    assert shown.count("/3]") in range(under_way, 3) and "[3/3]" not in shown


def test_jobs_end_with_a_parent_that_was_killed(three_by_two):
    process = three_by_two(2)
    process.kill()
    # which ends with the last process that could write
    assert "[3/3]" not in process.communicate(timeout=300)[0]


def test_a_process_whose_job_was_interrupted_takes_no_other(monkeypatch):
    ends = []
    monkeypatch.setattr("os._exit", ends.append)

    def interrupted():
        raise KeyboardInterrupt

    _work(interrupted, ())
    assert ends == [130]


class Traced(Negation):
    """A task that notes by way of which functions of the project a training step reaches it."""

    hops = ()

    def loss(self, prediction, target):
        if prediction.requires_grad:
            called = [frame.f_code for frame, _ in traceback.walk_stack(None)]
            rooms = {ROOT / "studies", ROOT / "geolab"}
            Traced.hops = [code.co_name for code in called if code.co_name.isidentifier()
                           and rooms & {*Path(code.co_filename).parents}]
        return super().loss(prediction, target)


def test_from_the_command_to_the_training_step_there_are_few_hops(monkeypatch):
    traced = [replace(arm, task=Traced(dim=4, train=32, validation=16)) for arm in toy()]
    monkeypatch.setitem(STUDIES, "toy", replace(TOYS["toy"], sizes={"cpu": lambda: traced}))
    assert main(["toy", "--out", "toy.json", "--arm", "linear", "--seeds", "0"]) == 0
    way = Traced.hops[::-1]
    assert way[0] == "main" and "fit" in way and len(way) - 1 <= 8, way


if __name__ in ("__main__", "__mp_main__"):  # the second name is that of a job's process
    if "GEOLAB_STANDIN" in os.environ:
        sys.path.append(str(Path(__file__).parents[1]))
        import conftest  # noqa: F401, the stand-in of the process that started this one
    STUDIES.update(TOYS)
if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
