"""Our models compute what the public ones compute, and their gradients."""

from dataclasses import replace

import pytest
import torch

from studies.parity import PUBLIC, RELEASED, agreement, table
from studies.parity.public import FIXTURES

TOLERANCE = 1e-5
every_row = pytest.mark.parametrize("public", PUBLIC, ids=lambda public: public.label)


@every_row
def test_same_function_and_same_gradients(public):
    found = agreement(public)
    assert found.output < TOLERANCE
    assert found.gradient < TOLERANCE, found.worst
    made = public.fixture.made
    assert set(made) == {"repository", "commit", "file", "model", "how"}
    assert len(made["commit"]) == 40


@every_row
def test_a_wrong_weight_is_seen(public):
    """A twentieth more in one number of ours: the check can fail."""
    # in one number, because a model may not depend on the scale of a whole matrix
    weights, gradients = public.fixture.weights, public.fixture.gradients
    effects = {name: (weight * gradients[name]).abs().flatten()
               for name, weight in weights.items() if name in gradients}
    name = max(effects, key=lambda name: float(effects[name].max()))
    original = weights[name].clone()
    try:
        weights[name].view(-1)[effects[name].argmax()] *= 1.05
        assert agreement(public).output > TOLERANCE
    finally:
        weights[name].copy_(original)


def test_a_forgotten_weight_is_refused():
    forgetful = replace(PUBLIC[0], translate=lambda weights: {"nothing": torch.zeros(1)})
    with pytest.raises(ValueError, match="every weight of ours"):
        agreement(forgetful)


# ---------------------------------------------------------------- the tables

def test_every_fixture_is_a_row_and_every_row_a_line():
    assert {path.stem for path in FIXTURES.glob("*.npz")} == {public.label for public in PUBLIC}
    assert table.text().count("\n") == len(PUBLIC) + len(RELEASED) + 1  # the library's version
    assert table.table(PUBLIC[:2]).count("<tr id=") == 2
    page = table.released(RELEASED[:2])
    assert page.count("<tr id=") == 2 and table.library() in page


@pytest.mark.parametrize("got, said", [("5.23.0", False), ("5.24.0", True)])
def test_a_library_that_isn_t_the_pinned_one_is_said(monkeypatch, tmp_path, got, said):
    pins = tmp_path / "requirements.txt"
    pins.write_text("timm==1\ntransformers==5.23.0  # why\n")
    monkeypatch.setattr(table, "PINS", pins)
    monkeypatch.setattr(table, "version", {"transformers": got}.__getitem__)
    assert got in table.library()
    assert ("isn't the pinned 5.23.0" in table.library()) == said
