"""The controls: matched, causal, and each with an operator of its own."""

import pytest
import torch

from geolab.probes import future_influence
from studies.registry import STUDIES

CONTROLS = STUDIES["emhc_controls"]


@pytest.mark.parametrize("budget", ["cpu", "paper"])
def test_parameters_match_within_a_tenth(budget):
    for part in ("echo", "gyroscope"):
        counts = {arm.name: sum(p.numel() for p in arm.build().parameters())
                  for arm in CONTROLS.arms(budget) if arm.part == part}
        assert (max(counts.values()) <= 1.1 * counts["hybrid"]
                and min(counts.values()) >= 0.9 * counts["hybrid"]), counts


def test_no_control_reads_the_future():
    torch.manual_seed(0)
    for arm in CONTROLS.arms("cpu"):
        if arm.part == "echo":
            assert future_influence(arm.build(), torch.randn(2, 6, 16)) == 0, arm.name


def test_what_operators_do_at_the_start_is_measured():
    torch.manual_seed(0)
    found = {arm.name: arm.untrained(arm.build()) for arm in CONTROLS.arms("cpu")
             if arm.part == "echo"}
    assert found["additive"] == {} and len(found["delta"]["beta"]) == 10
    # u and v start near zero
    assert max(found["cayley"]["|G - I|"]) < 1e-3
    # at γ = ½ the reflection is taken: |2 k kᵀ| = 2
    assert all(abs(size - 2) < 1e-2 for size in found["hybrid, hard"]["|G - I|"])
    # and softly half of it
    assert all(abs(size - 1) < 1e-2 for size in found["hybrid"]["|G - I|"])
    assert found["hybrid"]["gate"] == found["hybrid, hard"]["gate"] == [0.5] * 6
