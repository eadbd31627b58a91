"""A floor counts the bytes of the tensors that go into the operator and come out of it."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import floors
from benchmarks.cases import CASES, CHANNELS, STREAMS, Case, draws
from benchmarks.timing import cotangents_of, outputs_of
from geolab import operators

SIZES = {"N": st.integers(2, 9), "n": st.integers(1, 6), "d": st.integers(1, 40)}


def moved(function, inputs, still=()):
    """Bytes in and out of the forward pass, and of the backward pass.

    A single number for all tokens isn't counted.

    Arguments:
        still: places of inputs that don't meet a gradient.
    """
    inputs = [x.detach().requires_grad_() for x in inputs]
    outputs = outputs_of(function, inputs)
    cotangents = cotangents_of(outputs)
    gradients = torch.autograd.grad(outputs, inputs, cotangents)
    back = [pair[i] for i in range(len(inputs)) if i not in still for pair in (inputs, gradients)]
    passes = [*inputs, *outputs], [*cotangents, *back]
    return tuple(sum(t.nbytes for t in tensors if t.ndim) for tensors in passes)


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=5)
@given(**SIZES)
def test_a_floor_is_what_goes_in_and_out(name, N, n, d):
    case, n = CASES[name], STREAMS if name == "cayley_skew4" else n
    dtype = torch.bfloat16 if case.kind == "state" else torch.float32
    inputs = case.inputs(N, n, d, *draws("cpu", dtype, seed=0))
    assert case.floor(N, n, d, 2) == moved(case.function, inputs)


@pytest.mark.parametrize("name", ["stream_mix_write", "gated_mix", "delta_update, d_v = 4",
                                  "diagonal_update"])
def test_a_floor_counts_the_state_in_its_own_dtype(name):
    inputs = CASES[name].inputs(8, 4, 100, *draws("cpu", torch.float32, seed=0))
    assert CASES[name].floor(8, 4, 100, 4) == moved(CASES[name].function, inputs)


def test_value_channels_share_their_direction():
    one, four = floors.delta_update(10, 64, 1), floors.delta_update(10, 64, CHANNELS)
    assert four.forward < CHANNELS * one.forward and four.backward < CHANNELS * one.backward


def test_a_case_names_what_it_measures():
    for name, case in CASES.items():
        assert isinstance(case, Case) and name.startswith(case.twin)
        assert callable(getattr(operators, case.twin))
