"""Laws over every block that has a rule: a graft changes no number, and `ungraft` takes it back."""

import pytest
import torch
from shared import trained
from torch.testing import assert_close

from geolab.graft import Grafted, graft, residual_stream, ungraft
from geolab.graft.rules import RULES

DECODERS = [*sorted({name.split(".")[2] for name in RULES if name.startswith("transformers")}),
            "gpt_neox, serial"]
every_block = pytest.mark.parametrize("name", [*DECODERS, "vit", "encoder", "decoder", "nanogpt"])


def facts(model):
    """What a user or a library may read off each module."""
    return {name: (type(module), {key for key in vars(module) if not key.startswith("_")},
                   {key: value for key, value in vars(module).items()
                    if isinstance(value, bool | int | str | type(None) | set)},
                   set(module._forward_hooks), set(module._forward_pre_hooks))
            for name, module in model.named_modules()}


def trial(network):
    """The output, with what dropout draws, and the gradients of the parameters it reaches."""
    torch.manual_seed(1)
    network.model.zero_grad()
    y = network.run(network.model)
    (y - 1).square().mean().backward()
    return y.detach(), {key: p.grad.clone() for key, p in network.model.named_parameters()
                        if p.grad is not None}


@every_block
def test_a_graft_changes_no_number_and_no_name_and_comes_back(net, name):
    network = net(name, dropout=0.3)
    model = network.model.train()
    before, parameters = facts(model), dict(model.named_parameters())
    kinds = {key: type(part) for key, part in model.named_modules()}
    y, gradients = trial(network)
    graft(model, "mhc")
    again, found = trial(network)
    assert_close(again, y, rtol=1e-5, atol=1e-4)
    for key, grad in gradients.items():
        assert_close(found[key], grad, rtol=1e-3, atol=1e-5 * grad.abs().max().item() + 1e-7)
    assert not torch.equal(network.run(model), again), "another draw"
    modules, now = dict(model.named_modules()), dict(model.named_parameters())
    assert all(isinstance(modules[key], kind) and type(modules[key]).__name__ == kind.__name__
               for key, kind in kinds.items())
    assert sum(isinstance(part, Grafted) for part in modules.values()) == 3
    assert all(now[key] is p for key, p in parameters.items())
    assert all(".residuals." in key for key in now.keys() - parameters.keys())
    ungraft(model)
    assert facts(model) == before
    assert torch.equal(trial(network)[0], y)


@pytest.mark.parametrize("name", DECODERS)
def test_a_cache_gives_what_the_whole_text_gives(net, name):
    network = net(name)
    model, tokens = network.model.eval(), network.inputs
    plain = model(tokens).logits
    graft(model, "mhc", example=tokens)
    assert_close(model(tokens).logits, plain, rtol=1e-5, atol=2e-5)
    whole = trained(model)(tokens, use_cache=False).logits
    assert not torch.allclose(whole, plain, atol=1e-4)
    first = model(tokens[:, :4], use_cache=True)
    rest = model(tokens[:, 4:], past_key_values=first.past_key_values, use_cache=True)
    assert_close(torch.cat([first.logits, rest.logits], 1), whole, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", DECODERS)
def test_a_residual_that_reads_positions_stops_at_a_cache(net, name):
    network = net(name)
    model, tokens = graft(network.model, "delta-matrix", plain=False), network.inputs
    first = model(tokens[:, :4], use_cache=True)
    with pytest.raises(ValueError, match="^use_cache must be False: DeltaMatrix reads other "
                                         "positions .* holds 4 positions"):
        model(tokens[:, 4:], past_key_values=first.past_key_values, use_cache=True)


@pytest.mark.parametrize("name, options", [
    *((name, {}) for name in (*DECODERS, "vit", "nanogpt", "encoder")),
    ("encoder", {"norm_first": False, "batch_first": False})])
def test_a_network_taken_apart_is_the_whole_one_and_stays_what_it_is(net, name, options):
    network = net(name, **options)
    model = network.model.eval()
    with torch.no_grad():
        wanted = network.run(model)
        stream = residual_stream(model, network.inputs)
        letters = "AF" if len(stream.sublayers) == 6 else "B"
        assert [step.name for step in stream.sublayers] == [
            f"{letter}{index}" for index in range(3) for letter in letters]
        assert_close(sum(stream.writes()), stream.states()[-1], rtol=1e-5, atol=2e-5)
        assert_close(stream.head(stream.states()[-1]), wanted, rtol=1e-5, atol=2e-5)
        assert torch.equal(network.run(model), wanted)
        shorter = stream.states(stream.sublayers[:-1])
        assert torch.equal(shorter[-1], stream.states()[-2])
    x = stream.x.clone().requires_grad_()
    stream.sublayers[0](x).square().sum().backward()
    assert x.grad.abs().min() > 0
