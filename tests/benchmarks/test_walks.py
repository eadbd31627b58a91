"""The walk through the code: what is counted, and that it doesn't double back."""

import sys

import pytest

from benchmarks.walks import Call, block, grafting, hops, study, verdict, walk
from geolab.checks import require_count
from geolab.kernels import launch


def test_calls_of_the_house_are_counted_inside_the_context_alone():
    before = sys.getprofile()
    with walk() as calls:
        require_count("one", 1)
        sorted([1])
    require_count("one", 1)
    assert calls == [Call("geolab/checks.py", "require_count")] and sys.getprofile() is before


def test_no_operator_of_a_grafted_block_goes_back_to_the_residual():
    """Between an operator's first call and F, there are operators, kernels and checks alone."""
    inside = False
    forward, _ = block("never")
    assert sum(call.function == "constrained_join" for call in forward) == 2
    for call in forward:
        inside |= call.function == "constrained_join"
        if call == Call("geolab/graft/rules.py", "run"):
            inside = False
        assert not (inside and call.file.startswith("geolab/residuals/")), call


def test_whether_residuals_join_is_asked_once_for_each():
    forward, _ = block("never")
    asked = [call for call in forward if call.function == "untouched"]
    assert len(asked) == 2
    assert sum(call.function == "joining" for call in forward) == 1


def test_a_grafted_block_takes_half_the_hops_that_it_once_took():
    forward, _ = block("never")
    assert hops(forward) <= 58 // 2 + 1  # at the network's exit it asks whether x was read out


@pytest.mark.skipif(not launch.INTERPRETED, reason="compiled kernels call no function")
def test_so_does_one_with_kernels_forward_and_backward():
    forward, backward = block("always")
    assert hops(forward) <= 144 // 2 and hops(backward) <= 117 // 2


def test_so_does_a_study_up_to_its_first_model():
    assert hops(study("hyper_gain")) <= 106 // 2


def test_a_graft_makes_each_residual_once():
    made = [call for call in grafting() if call == Call("geolab/residuals/mhc.py", "__init__")]
    assert len(made) == 2


def test_a_verdict_asks_its_file_and_no_study():
    files = {call.file for call in verdict("ddl-one")}
    assert "studies/ledger.py" in files and "studies/engine/results.py" in files
    assert not any(file.startswith(("studies/experiments/", "geolab/")) for file in files)
