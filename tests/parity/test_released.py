"""Our residuals compute what the layers of the installed transformers compute."""

from dataclasses import replace

import pytest
from torch import nn

from studies.parity import RELEASED, installed_agreement, released_single, table
from studies.parity.released_single import ALPHA, BETA, EPS, MULTIPLIER, Ours, alternating, ours

TOLERANCE = 1e-5
every_row = pytest.mark.parametrize("row", RELEASED, ids=lambda row: row.label)


@every_row
def test_same_function_and_same_gradients(row):
    found = installed_agreement(row)
    assert found.output < TOLERANCE
    assert found.gradient < TOLERANCE, found.worst


@every_row
def test_a_wrong_weight_is_seen(row):
    """A twentieth more in any tensor of ours, one at a time. A single stream feels each."""
    effects = {}
    for wrong in row.translate(dict(row.theirs().named_parameters())):
        def translate(weights, wrong=wrong):
            return {name: 1.05 * weight if name == wrong else weight
                    for name, weight in row.translate(weights).items()}
        effects[wrong] = installed_agreement(replace(row, translate=translate)).output
    assert max(effects.values()) > 1e-4
    assert row not in released_single.ROWS or min(effects.values()) > 1e-4, effects


class Negative(nn.Module):
    """−F in the place of F."""

    def __init__(self, residual):
        super().__init__()
        self.residual = residual

    def forward(self, x, sublayer):
        return self.residual(x, lambda x: -sublayer(x))


def with_norms_at(network, eps):
    for norm in network.norms:
        norm.eps = eps
    return network


def preserving(**changes):
    return lambda: Ours(ours("norm-preserving", **{"eps": EPS} | changes), gains=(1, 3))


def by_depth(**changes):
    return lambda: Ours(ours("norm-preserving", **{"share": "depth", "eps": EPS} | changes))


def reversed_order():
    made = by_depth()()
    for k, residual in enumerate(reversed(made.residuals)):
        residual.summand = k + 2
    return made


def shifted_summands():
    """Counting the first sublayer's as summand 1: it would replace the embedding."""
    made = by_depth()()
    for residual in made.residuals:
        residual.summand -= 1
    return made


def without_norm_of_state():
    made = alternating()
    made.normed_state = False
    return made


CHANGED = {
    "muse-spark": [preserving(temperature=0.31), preserving(floor=0.0), preserving(eps=EPS / 2)],
    "beam": [by_depth(eps=EPS / 2), reversed_order, shifted_summands],
    "zaya1": [],
    "doge": [],
    "minimax": [without_norm_of_state, lambda: alternating(ALPHA[::-1]),
                lambda: alternating(beta=BETA[::-1]), lambda: alternating(BETA, ALPHA)],
    "granite": [lambda: Ours(ours("scaled", update=0.99 * MULTIPLIER, learned=())),
                lambda: Ours(ours("scaled", state=MULTIPLIER, learned=()))],
}


def test_every_row_has_its_changes():
    assert list(CHANGED) == [row.label for row in released_single.ROWS]


@pytest.mark.parametrize("row", released_single.ROWS, ids=lambda row: row.label)
def test_another_constant_order_or_guard_is_seen(row):
    for number, build in enumerate([*CHANGED[row.label],
                                    lambda: with_norms_at(row.build(), EPS / 2)]):
        assert installed_agreement(replace(row, build=build)).output > 1e-4, number


@pytest.mark.parametrize("row", released_single.ROWS, ids=lambda row: row.label)
def test_another_sign_is_seen(row):
    def build():
        made = row.build()
        for k, residual in enumerate(made.residuals):
            made.residuals[k] = Negative(residual)
        return made

    def translate(weights):
        return {name if not name.startswith("residuals") else
                ".".join([*name.split(".")[:2], "residual", *name.split(".")[2:]]): weight
                for name, weight in row.translate(weights).items()}

    assert installed_agreement(replace(row, build=build, translate=translate)).output > 0.01


# ---------------------------------------------------------------- the table

def test_the_table_has_a_line_per_row_under_the_library_s_version():
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


def test_requirements_pin_the_library():
    assert "transformers 5" in table.library()
