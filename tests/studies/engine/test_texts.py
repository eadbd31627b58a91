"""Another text in place of a study's own is measured on, too, and the file says which it was."""

import hashlib
from dataclasses import replace
from functools import partial

import pytest

from geolab.tasks import corpora
from geolab.tasks.text import SAMPLE_SHA256, Corpus
from studies.engine.refusal import Refused
from studies.engine.run import Part, on_task, texts
from studies.experiments.registry import STUDIES

ON_TEXT = {(name, size): [arm for arm in study.arms(size) if isinstance(arm.task, Corpus)]
           for name, study in STUDIES.items() for size in study.sizes}


@pytest.mark.parametrize("which", [which for which, arms in ON_TEXT.items() if arms])
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
    arms = ON_TEXT["headline", "cpu"][:2]
    assert texts(arms) == {"text": {"corpus": "sample", "sha256": SAMPLE_SHA256}}
    far = [replace(arm, task=replace(arm.task, corpus="wikitext-2")) for arm in arms]
    assert texts(far) == {"text": {"corpus": "wikitext-2"}}
    monkeypatch.setenv("GEOLAB_CACHE", str(tmp_path))
    study = STUDIES["headline"]
    with pytest.raises(Refused, match="make corpus NAME=king-james"):
        Part(corpus="king-james").of(study, "cpu")
    (tmp_path / "king-james").mkdir()
    (tmp_path / "king-james/king-james.txt").write_text("In the beginning\n")
    kept = hashlib.sha256(b"In the beginning\n").hexdigest()
    monkeypatch.setitem(corpora.PUBLISHED, "king-james",
                        corpora.PUBLISHED["king-james"]._replace(sha256=kept))
    moved = Part(arms=["additive"], corpus="king-james").of(study, "cpu")
    assert texts(moved) == {"text": {"corpus": "king-james", "sha256": kept}}
