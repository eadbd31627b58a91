"""The controls: matched, causal, and each with an operator of its own."""

import pytest
import torch

from studies import EXPERIMENTS
from geolab.probes import future_influence

CONTROLS = EXPERIMENTS["emhc_controls"]


@pytest.mark.parametrize("budget", ["cpu", "paper"])
def test_parameters_match_within_a_tenth(budget):
    for comparison in CONTROLS.plan(budget).values():
        counts = {name: sum(p.numel() for p in build().parameters()) for name, build in comparison.models.items()}
        assert max(counts.values()) <= 1.1 * counts["hybrid"] and min(counts.values()) >= 0.9 * counts["hybrid"], counts


def test_no_control_reads_the_future():
    torch.manual_seed(0)
    comparison = CONTROLS.plan("cpu")["echo"]
    for build in comparison.models.values():
        assert future_influence(build(), torch.randn(2, 6, 16)) == 0


def test_what_operators_do_at_the_start_is_measured():
    torch.manual_seed(0)
    comparison = CONTROLS.plan("cpu")["echo"]
    found = {name: comparison.untrained(build()) for name, build in comparison.models.items()}
    assert found["additive"] == {} and len(found["delta"]["beta"]) == 10
    assert max(found["cayley"]["|G - I|"]) < 1e-3                                   # u and v start near zero
    assert all(abs(size - 2) < 1e-2 for size in found["hybrid, hard"]["|G - I|"])   # at γ = ½ the reflection is taken: |2 k kᵀ| = 2
    assert all(abs(size - 1) < 1e-2 for size in found["hybrid"]["|G - I|"])         # and softly half of it
    assert found["hybrid"]["gate"] == found["hybrid, hard"]["gate"] == [0.5] * 6
