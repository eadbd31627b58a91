"""Penalties reach the loss of their own thread, once, and with a gradient."""

import threading
from inspect import signature

import pytest
import torch
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

from geolab.models import ContinuousModel, Transformer, TransformerConfig
from geolab.penalties import add_penalty, collect_penalties
from geolab.residuals import REGISTRY, Normed, make_residual
from geolab.tasks import Echo
from geolab.training import Budget, fit

ASKS = [name for name, residual in REGISTRY.items()
        if "penalty" in signature(residual).parameters]
every_asker = pytest.mark.parametrize("name", ASKS)


def penalised(name):
    torch.manual_seed(0)
    return make_residual(name, 16, penalty=1.0)


def gradients(residual, use_reentrant=None):
    """How often the penalty is counted. Its gradients come to the parameters; None: no checkpoint.
    """
    x = torch.randn(2, 3, 16, generator=torch.Generator().manual_seed(0)).requires_grad_()
    state, sublayer = residual.expand(x), Normed(torch.tanh)
    with collect_penalties() as penalties:
        if use_reentrant is None:
            residual(state, sublayer)
        else:
            y = checkpoint(residual, state, sublayer, use_reentrant=use_reentrant)
            (sum(penalties) + 0 * y.sum()).backward()  # inside: the forward pass runs again
        found = len(penalties)
    if use_reentrant is None:
        sum(penalties).backward()
    return found


@every_asker
def test_checkpointing_counts_a_penalty_once_with_its_gradient(name):
    plain, again = penalised(name), penalised(name)
    assert gradients(plain) == gradients(again, use_reentrant=False) == 1
    wanted = {key: p.grad for key, p in plain.named_parameters() if p.grad is not None}
    assert any(grad.any() for grad in wanted.values())
    for key, grad in wanted.items():
        assert_close(again.get_parameter(key).grad, grad, rtol=0, atol=1e-7)


@every_asker
def test_reentrant_checkpointing_is_refused(name):
    with pytest.raises(RuntimeError, match="^penalty must have a gradient while training.*"
                                           "use_reentrant=False$"):
        gradients(penalised(name), use_reentrant=True)


def test_so_it_is_in_fit():
    class Checkpointed(ContinuousModel):
        def forward(self, x):
            return checkpoint(super().forward, x.requires_grad_(), use_reentrant=True)

    task = Echo(dim=4, length=6, train=8, validation=4)
    trunk = Transformer(TransformerConfig(width=16, layers=1, heads=2), "emhc-hybrid")
    with pytest.raises(RuntimeError, match="^penalty must have a gradient while training"):
        fit(Checkpointed(trunk, 4), task, Budget(steps=1, batch=4), progress=False)


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
