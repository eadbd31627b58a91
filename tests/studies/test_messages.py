"""What is refused before anything is trained, in the words of its message."""

import re
from dataclasses import replace

import pytest
from shared_studies import small_arms, small_study
from torch import nn

from studies import ledger
from studies.claims import CONFIGURATIONS, MGT_PLANS, files
from studies.claims.hypothesis import hypothesis
from studies.claims.observation import Observation
from studies.claims.table import table
from studies.claims.theorem import Theorem
from studies.engine import sources
from studies.engine.judge import Claim, effect
from studies.engine.live import live, stored_runs
from studies.engine.protocol import Protocol
from studies.engine.results import interval, stored
from studies.engine.run import Part, run_study
from studies.parity.lecture_models import LECTURE
from studies.parity.models import MODELS

RUNS = [{"model": "additive", "seed": 0, "validation_loss": [1.0]}]
CLAIM = {"label": "same", "source": "DDL", "number": "theorem 0", "statement": "A = A.",
         "chapter": "02_delta_operator"}
SEEN = {"label": "real-x", "statement": "A.", "chapter": "stream", "of": "a"}
TABLE = {"source": "DDL", "number": "table 1", "origin": "the text", "unit": "nats"}
BEAM = next(row for row in MODELS if row.label == "beam")
STATED = small_arms(Protocol.stated(1e-2, (0,)))


def study(**given):
    return lambda: run_study(small_study(lambda: STATED), **given)


def protocol(**wrong):
    return lambda: Protocol(**wrong)


def plan(name, layers, **given):
    return lambda: MGT_PLANS[name].backbone(layers, **given)


def row(make, **changes):
    """A row of a file of claims."""
    def call():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "read", lambda name: [{"rows": [CLAIM | changes]}])
            list(files.entries("room", ["a"], make))
    return call


def in_a_shell():
    def build():
        return nn.Linear(4, 4)
    build.__module__ = "typed"  # a module without a file
    sources.of([replace(STATED[0], build=build)])


IN_ITS_FILE = "claims/room/a.yml, row 'same': .*"
REFUSED = [
    # the engine
    (protocol(seeds=()), r"seeds must hold at least one number, got \(\)"),
    (protocol(seeds=(0, 0)), "seeds must differ, got 0, 0"),
    (protocol(search_seeds=(3, 100)),
     "search_seeds must be others than the seeds that report, got 3"),
    (protocol(rates=(3e-3, 1e-2)), "rates must be 1, 2 or 5 times a power of ten, for a search "
                                   "that widens, got 0.003"),
    (protocol(warmups=(0.2,)), "warmups must be among 0.03, 0.1, 0.3, 0.6, 1.0, got 0.2"),
    (study(part=Part(["cubic"])), "arm must be one of 'biased', 'linear', got 'cubic'"),
    (study(part=Part(corpus="texts")), "corpus replaces the text of tasks on text, and this study"),
    (study(jobs=0), "jobs must be at least 1, got 0"),
    (in_a_shell, "must be a function of a file.* got .*build of typed"),
    (lambda: effect(RUNS, Claim({"mhc": 1})), "contrast names mhc, which has no runs here"),
    (lambda: interval([1.0]), "values must be at least 2 numbers, got 1"),
    (lambda: stored("delta", "none"), "python -m studies delta --size none makes it"),
    (lambda: live("losses", {"a": 1.0}, "loss"), "label must be 'CHAPTER/name'.*'losses'"),
    (lambda: live("99/gate", {"a": 1.0}, "loss", beats={"b": 1.0}),
     "beats must name arms of runs .*got b"),
    (lambda: stored_runs("99/none"), "make stored-live ONLY=99"),
    # claims
    (lambda: ledger.row("mgt-magic"), "label must be a row of the ledger of hypotheses, got"),
    (row(Theorem, source="Euclid", verdict="holds"),
     f"{IN_ITS_FILE}source must be one of MGT, .*, got 'Euclid'"),
    (row(Theorem, verdict="maybe"), f"{IN_ITS_FILE}verdict must be one of holds, .*, got 'maybe'"),
    (row(hypothesis, source="nobody"), f"{IN_ITS_FILE}source must be one of .*got 'nobody'"),
    (row(hypothesis, quantity="beauty"), f"{IN_ITS_FILE}quantity must be one of .*got 'beauty'"),
    (row(hypothesis, contrasts={}), f"{IN_ITS_FILE}unexpected keyword argument 'contrasts'"),
    (row(hypothesis), f"{IN_ITS_FILE}quote must be the words of DDL, got none"),
    (row(hypothesis, source="this book", quote="so"),
     f"{IN_ITS_FILE}quote must be empty .*got 'so'"),
    (lambda: Observation(**SEEN), "row real-x must have a border above or below"),
    (lambda: Observation(above=0, below=1, **SEEN), "row real-x must have a border above or below"),
    (lambda: table(columns=["a", "b"], rows={"x": 1.5}, **TABLE), "zip"),
    (lambda: table(columns=["a"], rows={"x": "ten"}, **TABLE), "could not convert"),
    (lambda: replace(BEAM, scheme="twice"), "scheme must be one of 'one stream'.*got 'twice'"),
    (lambda: replace(BEAM, module=""),
     "one of module, code and reported must be given, got '', '', ''"),
    (lambda: CONFIGURATIONS["emhc-gpt"].model(), "'additive' has no vocabulary"),
    (plan("mgt-rank", 6, heads=8), "layers must be one of 12, 24, 48, 100, got 6"),
    (plan("mgt-rank", 12, width=128, heads=8), "width is 256 in this protocol, got 128"),
    (plan("mgt-rank", 12), "heads is open in this protocol, and must be given"),
    (lambda: LECTURE["lite"].model(alpha=1.0), "size must be one of 'width', .*, got 'alpha'"),
]


@pytest.mark.parametrize("call, message", REFUSED, ids=[message[:50] for _, message in REFUSED])
def test_what_can_not_be_is_refused(call, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, FileNotFoundError)) as refused:
        call()
    assert re.search(message, str(refused.value))


def test_a_file_that_is_no_yaml_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.yml").write_text("- {")
    monkeypatch.setattr(files, "HERE", tmp_path)
    with pytest.raises(ValueError, match="a.yml must be YAML"):
        files.read("a")
