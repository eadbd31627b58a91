"""What training does with a grafted network, and what it needs of it."""

import copy
import pickle

import pytest
import torch
from shared import ANYWHERE
from torch.testing import assert_close

from geolab.graft import graft
from geolab.penalties import collect_penalties

FAMILIES = ["gpt2", "llama", "vit", "encoder", "decoder", "nanogpt"]


def checkpoint(model):
    newer = getattr(model, "activation_checkpointing_enable", None)  # its name from 5.20 on
    (newer or model.gradient_checkpointing_enable)()


def loss_of(net, model):
    y = net.run(model)
    return (y - torch.ones_like(y)).square().mean()


@pytest.mark.parametrize("family, name", [*(("gpt2", name) for name in sorted(ANYWHERE)),
                                          ("llama", "mhc"), ("vit", "mhc")])
def test_the_loss_falls_and_every_new_parameter_is_reached(net, family, name):
    network = net(family)
    model = graft(network.model, name, plain=False)
    new = {key: p for key, p in model.named_parameters() if ".residuals." in key}
    reached, losses = [], []
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(4):
        loss = loss_of(network, model)
        optimizer.zero_grad()
        loss.backward()
        reached.append({key for key, p in new.items() if p.grad is not None and p.grad.any()})
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert not set(new) - set().union(*reached)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_network_s_own_parameters_get_the_gradients_they_got(net, family):
    network = net(family)
    loss_of(network, network.model).backward()
    before = {key: p.grad.clone() for key, p in network.model.named_parameters()
              if p.grad is not None}
    network.model.zero_grad()
    loss_of(network, graft(network.model, "mhc")).backward()
    after = {key: p.grad for key, p in network.model.named_parameters() if p.grad is not None}
    for key, grad in before.items():
        assert_close(after[key], grad, rtol=1e-3, atol=1e-5 * grad.abs().max().item() + 1e-7)


@pytest.mark.parametrize("family", ["gpt2", "llama", "vit"])
@pytest.mark.parametrize("name", ["mhc", "emhc-hybrid"])
def test_gradient_checkpointing_gives_the_same_gradients(net, family, name):
    network = net(family, dropout=0.1)
    model = graft(network.model, name, plain=False).train()
    gradients = []
    for checkpointing in (False, True):
        if checkpointing and family == "vit":
            model.set_grad_checkpointing()
        elif checkpointing:
            checkpoint(model)
        torch.manual_seed(1)
        model.zero_grad()
        with collect_penalties() as penalties:
            loss = loss_of(network, model)
        (loss + sum(penalties)).backward()
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
        assert len(penalties) == (6 if name == "emhc-hybrid" else 0)
    assert_close(gradients[1], gradients[0], rtol=1e-5, atol=1e-7)


def test_gradient_checkpointing_really_runs_a_block_twice(net):
    network = net("gpt2")
    model, calls = graft(network.model, "mhc").train(), []
    checkpoint(model)
    model.transformer.h[1].mlp.register_forward_hook(lambda *_: calls.append(1))
    loss_of(network, model).backward()
    assert len(calls) == 2


@pytest.mark.parametrize("family, name", [("gpt2", "hyper"), ("vit", "mgt")])
def test_it_compiles(net, family, name):
    network = net(family, layers=2)
    model = graft(network.model, name, plain=False)
    eager = network.run(model)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager")
    assert_close(network.run(compiled), eager, rtol=1e-4, atol=1e-4)
    loss_of(network, compiled).backward()
    assert all(p.grad is not None for key, p in model.named_parameters() if ".residuals." in key)


@pytest.mark.parametrize("family, name", [*((family, "mhc") for family in FAMILIES),
                                          ("gpt2", "hyper"), ("gpt2", "mgt")])
def test_it_trains_under_autocast(net, family, name):
    network = net(family)
    model = graft(network.model, name, plain=False)
    plain = network.run(model)
    with torch.autocast("cpu", torch.bfloat16):
        y = network.run(model)
        loss = y.float().square().mean()
    loss.backward()
    assert_close(y.float(), plain, rtol=0.1, atol=0.1 * plain.abs().max().item())
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))],
                         ids=["copied", "pickled"])
@pytest.mark.parametrize("family", ["gpt2", "vit", "encoder"])
def test_a_copy_is_a_network_of_its_own(net, family, again):
    network = net(family)
    model = graft(network.model, "mhc")
    before = network.run(model)
    twin = again(model)
    assert torch.equal(network.run(twin), before)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    assert torch.equal(network.run(twin), before)


def test_sublayers_that_share_a_part_of_their_residuals(net):
    network, twin = net("gpt2"), net("gpt2")
    model = graft(network.model, "delta-matrix", plain=False, tied=True)
    for block in model.transformer.h:
        assert block.residuals[1].compressor is block.residuals[0].compressor
    loss_of(network, model).backward()
    assert all(p.grad is not None for key, p in model.named_parameters() if ".residuals." in key)
    graft(twin.model, "delta-matrix", plain=False, tied=True).load_state_dict(model.state_dict())
    assert torch.equal(network.run(twin.model), network.run(model))
