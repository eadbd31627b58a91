"""β over a hundred blocks: what is noted, and that its sign means something."""

from dataclasses import replace

import pytest
import torch

from geolab.training import fit
from studies.experiments import mgt_beta
from studies.experiments.mgt_beta import NAMES, STUDY, gates, measure, step, watched

FEW = 3


@pytest.fixture
def small(monkeypatch):
    """Three blocks, of which one is early and one deep, at α = ½."""
    monkeypatch.setattr(mgt_beta, "BLOCKS", FEW)
    monkeypatch.setattr(mgt_beta, "END", 1)
    torch.manual_seed(0)
    return watched(0.5)


def test_neither_sign_is_given_at_the_start(small):
    first = small.seen[0]
    mean, _, below, alpha, _ = first.T
    assert not mean.any() and not below.any() and (alpha == 0.5).all()
    state = torch.randn(1, 4, 64)
    assert torch.equal(small.trunk.layers[0].residual(state, lambda x: x.square()), state)


def test_it_notes_gates_after_each_quarter_and_what_is_erased(small):
    fit(small, mgt_beta.TASK, replace(mgt_beta.BUDGET, steps=8, evaluate_every=2), 0)
    found = measure(small)
    assert set(found["by block"]) == set(NAMES)
    assert all(len(row) == FEW for rows in found["by block"].values() for row in rows)
    last = gates(small.eval(), mgt_beta.TASK.sample("validation").inputs[:16])
    for part, block in (("early", 0), ("deep", -1)):
        mean = last.view(FEW, 2, len(NAMES))[block].mean(0)
        for name in ("mean", "below 0", "erased"):
            assert found[part][name] == pytest.approx(mean[NAMES.index(name)].item(), rel=1e-3)
    assert 0 < found["early"]["erased"] < 1 and list(found["step"]) == ["25 %", "50 %", "100 %"]


def test_a_variation_has_what_the_end_has(small):
    fit(small, mgt_beta.TASK, replace(mgt_beta.BUDGET, steps=8, evaluate_every=8), 0)
    found, last = measure(small), small.seen[1].view(FEW, 2, len(NAMES)).mean(1)
    assert list(found["step"]) == ["100 %"]
    for part, block in (("early", 0), ("deep", -1)):
        assert found[part]["mean"] == pytest.approx(last[block, 0].item(), rel=1e-3)


def test_a_step_explains_all_of_a_step_and_three_quarters_of_a_line():
    assert step(torch.tensor([1., 1, 1, -2, -2])) == pytest.approx(1)
    assert step(torch.linspace(0, 1, 1000)) == pytest.approx(0.75, abs=1e-3)
    assert step(torch.ones(5)) == 0


def test_the_arms_differ_by_the_start_of_alpha_alone():
    starts = [arm.build.args for arm in STUDY.arms()]
    assert starts == 2 * [(0.0,), (0.5,), (1.0,)] and len({arm.task for arm in STUDY.arms()}) == 1
