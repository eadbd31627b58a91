"""Attention residuals: what a sublayer reads, and where it writes."""

from unittest.mock import patch

import pytest
import torch
from shared_kernels import check, normal
from test_every_kernel import given, require
from test_gated_read import Blind
from test_joined import HALF, interpreted, network, outputs_and_gradients
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

from benchmarks.schedule import Operations
from benchmarks.traffic import traffic
from geolab import kernels, operators
from geolab.kernels import attend
from geolab.operators.attend import Attention, place_source
from geolab.residuals import AttnRes, make_residual

# places of arguments that a mutant takes for zeros, of both passes
MUTANTS = [("_forward", 0), ("_forward", 1), *(("_backward", place) for place in range(6))]
HOW = Attention(1e-5)


@pytest.mark.parametrize("n, k", [(1, 1), (4, 4), (6, 3)])
def test_it_adds_the_gradient_from_later_to_its_own(device, n, k):
    def run(x, query):
        x, first = operators.attend_on(x, query, HOW, k)
        x, second = operators.attend_on(x, query / 2, HOW, n)
        return first, second, operators.attend(x, 2 * query, HOW, n)

    with kernels.use("always"):
        check(run, run, normal(3, 5, n, 24, device=device), normal(24, seed=1, device=device),
              tolerance=1e-5)


@pytest.mark.parametrize("lead", [(0,), (1,), (70,)])
def test_any_number_of_tokens(device, lead):
    require("attend_on", *given("attend_on", lead, device, n=3, d=50))


@pytest.mark.parametrize("name, place", MUTANTS)
def test_a_wrong_kernel_is_noticed(device, name, place):
    with (patch.object(attend, name, Blind(getattr(attend, name), place)),
          pytest.raises(AssertionError, match="relative error")):
        require("attend_on", *given("attend_on", (7,), device, d=24))


# ---------------------------------------------------------------- the write

def test_a_source_is_written_beside_the_others_only_in_memory_of_its_own(device):
    x, source = normal(2, 3, 4, 8, device=device), normal(2, 3, 8, seed=1, device=device)
    before = x.clone()
    with kernels.use("always"):
        copied = place_source(x, source, 2, own=False)
        assert torch.equal(x, before)
        written = place_source(x, source, 2, own=True)
    assert torch.equal(copied, written) and written.data_ptr() == x.data_ptr()
    with kernels.use("never"):
        assert place_source(x, source, 1, own=True).data_ptr() != x.data_ptr()


OPTIONS = [{}, {"block": 3}, {"read": "sum", "values": "normed", "scaled": True}, {"queries": 3}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_network_that_writes_in_place_is_the_one_that_copies(device, options):
    model, x = network(device, layers=2, residual="attnres", options=options)
    wanted = outputs_and_gradients(model, x, "never")
    found = outputs_and_gradients(model, x, "always")
    assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    hook = model.layers[1].residual.register_forward_hook(lambda *given: None)  # who looks
    assert not model.joined
    copied = outputs_and_gradients(model, x, "always")
    hook.remove()
    assert model.joined and torch.equal(found[0], copied[0])
    assert_close(found, copied, rtol=1e-5, atol=1e-6)


def test_it_may_be_recomputed_compiled_and_run_twice(device):
    model, x = network(device, layers=2, residual="attnres", options={})
    wanted = outputs_and_gradients(model, x, "always")
    assert_close(outputs_and_gradients(model, x, "always"), wanted, rtol=0, atol=0)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager").forward
    for way in (lambda model, x: compiled(x),
                lambda model, x: checkpoint(model, x, use_reentrant=False)):
        assert_close(outputs_and_gradients(model, x, "always", way), wanted, rtol=1e-4, atol=1e-5)
    model.recompute = 1
    assert_close(outputs_and_gradients(model, x, "always"), wanted, rtol=1e-5, atol=1e-6)


def test_states_that_somebody_holds_keep_their_zeros(device):
    chain = [make_residual("attnres", 16, index, 3) for index in range(3)]
    x = normal(2, 5, 16, device=device)
    with kernels.use("always"):
        states = [chain[0].expand(x)]
        for residual in chain:
            states.append(residual.to(device)(states[-1], lambda u: u + 1))
    for place, state in enumerate(states):
        assert not state[..., place + 1:, :].any() and state[..., place, :].any()


def test_a_subclass_that_takes_another_step_copies():
    assert AttnRes(16).joins
    for name in ("forward", "coefficients"):
        assert not type("Other", (AttnRes,), {name: lambda self, *given: given[0]})(16).joins


@interpreted
def test_a_write_moves_its_source_and_not_the_others():
    """Of sublayers 2 to 4: F's output is read and written; then k sources are read."""
    def moved(joined, depth, d, N=40):
        chain = [make_residual("attnres", d, index, 5) for index in range(depth)]
        state = chain[0].expand(torch.randn(1, N, d).to(HALF))
        with kernels.use("always"), traffic() as by_kernels, Operations() as by_operations:
            for residual in chain:
                state = (residual.step if joined else residual)(state, lambda u: u)
        return by_kernels.distinct + by_operations.moved

    def vectors(joined, depth):
        of = [moved(joined, depth, d) - moved(joined, depth - 1, d) for d in (64, 192)]
        return round((of[1] - of[0]) / (128 * 2 * 40))

    n = 6
    for k in (2, 3, 4):
        # PyTorch's copy into a place counts that twice
        assert vectors(True, k) == k + 1 + 3
        assert vectors(False, k) == k + 1 + 1 + 2 * n
