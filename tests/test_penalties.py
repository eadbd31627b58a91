"""Penalties reach the loss of their own thread, once, and with a gradient."""

import threading
from inspect import signature

import pytest
import torch
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

from geolab.penalties import add_penalty, collect_penalties
from geolab.residuals import REGISTRY, Normed, make_residual

every_asker = pytest.mark.parametrize("name", [
    name for name, residual in REGISTRY.items() if "penalty" in signature(residual).parameters])


def run(name, **checkpointing):
    """The parameters' gradients of a residual whose one penalty is trained, perhaps checkpointed.
    """
    torch.manual_seed(0)
    residual = make_residual(name, 16, penalty=1.0)
    state = residual.expand(torch.randn(2, 3, 16).requires_grad_())
    with collect_penalties() as penalties:
        y = checkpoint(residual, state, Normed(torch.tanh), **checkpointing) if checkpointing \
            else residual(state, Normed(torch.tanh))
        (sum(penalties) + 0 * y.sum()).backward()  # inside: the forward pass may run again
    assert len(penalties) == 1
    return {key: p.grad for key, p in residual.named_parameters() if p.grad is not None}


@every_asker
def test_checkpointing_counts_a_penalty_once_with_its_gradient(name):
    wanted = run(name)
    assert any(grad.any() for grad in wanted.values())
    assert_close(run(name, use_reentrant=False), wanted, rtol=0, atol=1e-7)


@every_asker
def test_reentrant_checkpointing_is_refused(name):
    with pytest.raises(RuntimeError, match="^penalty must have a gradient while training.*"
                                           "use_reentrant=False$"):
        run(name, use_reentrant=True)


def test_without_gradients_they_are_numbers():
    with torch.no_grad(), collect_penalties() as penalties:
        add_penalty(torch.tensor(2.0))
    with collect_penalties() as frozen:  # nothing that it depends on learns
        add_penalty(torch.tensor(2.0))
    assert [p.item() for p in (*penalties, *frozen)] == [2.0, 2.0]
    add_penalty(torch.tensor(3.0))  # nobody collects


def test_threads_do_not_mix():
    ready, found = threading.Barrier(4), {}

    def collect(k):
        with collect_penalties() as penalties:
            for _ in range(3):
                ready.wait()
                add_penalty(torch.tensor(float(k)))
            ready.wait()
            found[k] = [p.item() for p in penalties]

    threads = [threading.Thread(target=collect, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert found == {k: [float(k)] * 3 for k in range(4)}


def test_the_inner_collector_takes_them():
    with collect_penalties() as outer:
        with collect_penalties() as inner:
            add_penalty(torch.tensor(1.0))
        add_penalty(torch.tensor(2.0))
    assert [p.item() for p in inner] == [1.0] and [p.item() for p in outer] == [2.0]


@pytest.mark.parametrize("penalty", [1.0, torch.ones(1), torch.ones(2, 3), None])
def test_a_penalty_is_a_scalar(penalty):
    with pytest.raises(ValueError, match="^penalty must be a scalar tensor, got"):
        add_penalty(penalty)
