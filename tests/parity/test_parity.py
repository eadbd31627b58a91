"""Our models compute what the public ones compute, and their gradients."""

from dataclasses import replace

import pytest
import torch

from studies.parity import PUBLIC, RELEASED, agreement
from studies.parity.public import FIXTURES
from studies.parity.table import rows, text

TOLERANCE = 1e-5


@pytest.mark.parametrize("public", PUBLIC, ids=lambda public: public.label)
def test_same_function_and_same_gradients(public):
    found = agreement(public)
    assert found.output < TOLERANCE
    assert found.gradient < TOLERANCE, found.worst


@pytest.mark.parametrize("public", PUBLIC, ids=lambda public: public.label)
def test_a_fixture_says_how_it_was_made(public):
    made = public.fixture.made
    assert set(made) == {"repository", "commit", "file", "model", "how"}
    assert len(made["commit"]) == 40


@pytest.mark.parametrize("public", PUBLIC, ids=lambda public: public.label)
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


def test_every_fixture_is_a_row():
    assert {path.stem for path in FIXTURES.glob("*.npz")} == {public.label for public in PUBLIC}


def test_table_has_a_line_per_model():
    assert len(rows(PUBLIC[:2])) == len(PUBLIC[:2])
    assert text().count("\n") == len(PUBLIC) + len(RELEASED) + 1  # the library's version


def test_a_forgotten_weight_is_refused():
    forgetful = replace(PUBLIC[0], translate=lambda weights: {"nothing": torch.zeros(1)})
    with pytest.raises(ValueError, match="every weight of ours"):
        agreement(forgetful)
