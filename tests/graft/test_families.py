"""Every decoder of transformers that has a rule: the same function, with a cache too; and the way
back.
"""

import pytest
import torch
from shared import trained
from torch import nn
from torch.testing import assert_close

from geolab.graft import graft, residual_stream, ungraft
from geolab.graft.rules import RULES

FAMILIES = [*sorted({name.split(".")[2] for name in RULES if name.startswith("transformers")}),
            "gpt_neox, serial"]


@pytest.fixture
def family(net):
    def make(name):
        network = net(name)
        return network.model.eval(), network.inputs
    return make


@pytest.mark.parametrize("name", FAMILIES)
def test_a_grafted_decoder_is_the_plain_one_with_a_cache_too_and_comes_back(family, name):
    model, tokens = family(name)
    wanted, keys = model(tokens).logits, list(model.state_dict())
    graft(model, "mhc", example=tokens)
    assert_close(model(tokens).logits, wanted, rtol=1e-5, atol=2e-5)
    trained(model)
    whole = model(tokens, use_cache=False).logits
    first = model(tokens[:, :4], use_cache=True)
    rest = model(tokens[:, 4:], past_key_values=first.past_key_values, use_cache=True)
    assert_close(torch.cat([first.logits, rest.logits], 1), whole, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(whole, wanted, atol=1e-4)
    whole.square().mean().backward()
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)
    ungraft(model)
    assert list(model.state_dict()) == keys
    assert_close(model(tokens).logits, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("name, reason", [("Bert", "post-norm"), ("T5", "position bias")])
def test_a_model_of_another_kind_is_refused_by_name(transformers, name, reason):
    sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, vocab_size=50)
    model = getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**sizes))
    with pytest.raises(ValueError, match=f"^graft takes no {name}Model: .*{reason}"):
        graft(model, "mhc")


def test_a_residual_that_reads_positions_stops_at_a_cache_with_every_rule(family):
    for name in FAMILIES:
        model, tokens = family(name)
        graft(model, "delta-matrix", plain=False)
        first = model(tokens[:, :4], use_cache=True)
        with pytest.raises(ValueError, match=r"^use_cache must be False: DeltaMatrix reads other "
                           r"positions .* holds 4 positions"):
            model(tokens[:, 4:], past_key_values=first.past_key_values, use_cache=True)


def test_a_block_of_another_class_with_a_known_name_is_told_apart():
    class Block(nn.Module):
        def forward(self, x):
            return x

    with pytest.raises(ValueError, match=r"\(.*timm\.models\.vision_transformer\.Block.*\), got "
                       r"Sequential with \S+<locals>\.Block;"):
        graft(nn.Sequential(Block(), Block()), "mhc")


@pytest.mark.parametrize("name", [*FAMILIES, "vit", "nanogpt"])
@torch.no_grad()
def test_a_network_taken_apart_is_the_whole_one_and_stays_what_it_is(net, name):
    made = net(name)
    model = made.model.eval()
    wanted = made.run(model)
    stream = residual_stream(model, made.inputs)
    letters = "AF" if len(stream.sublayers) == 6 else "B"
    assert [step.name for step in stream.sublayers] == [
        f"{letter}{index}" for index in range(3) for letter in letters]
    assert_close(sum(stream.writes()), stream.states()[-1], rtol=1e-5, atol=2e-5)
    assert_close(stream.head(stream.states()[-1]), wanted, rtol=1e-5, atol=2e-5)
    assert torch.equal(made.run(model), wanted)
