"""Masks, caches, `generate`, hidden states, and weights on a disk."""

import pytest
import torch
from shared import ANYWHERE, trained
from torch.testing import assert_close

from geolab.graft import graft, reads_other_positions

FAMILIES = ["gpt2", "llama", "qwen2", "qwen3"]
READING = [("emhc-hybrid", {}), ("benchmark-delta", {}), ("delta-matrix", {}),
           ("emhc-cayley", {"pool": "sequence"})]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", FAMILIES)
def test_padding_doesn_t_change_what_stands_beside_it(net, family, side):
    network = net(family)
    model, tokens = trained(graft(network.model, "mhc")), network.inputs
    padding, on = torch.zeros_like(tokens[:, :3]), torch.ones_like(tokens)
    parts = (padding, tokens) if side == "left" else (tokens, padding)
    mask = torch.cat([torch.zeros_like(padding), on] if side == "left" else
                     [on, torch.zeros_like(padding)], dim=1)
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    y = model(torch.cat(parts, dim=1), attention_mask=mask, position_ids=positions).logits
    y = y[:, 3:] if side == "left" else y[:, :-3]
    assert_close(y, model(tokens).logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name, options", [
    *((name, {}) for name in sorted(ANYWHERE) if not reads_other_positions(name, 16)),
    ("delta-matrix", {"compress": "channel"}), ("emhc-hybrid", {"pool": "token"})])
def test_a_cache_gives_what_the_whole_sequence_gives(net, name, options):
    network = net("llama")
    model = trained(graft(network.model, name, plain=False, **options))
    whole = model(network.inputs, use_cache=False).logits
    first = model(network.inputs[:, :4], use_cache=True)
    rest = model(network.inputs[:, 4:], past_key_values=first.past_key_values, use_cache=True)
    assert_close(torch.cat([first.logits, rest.logits], 1), whole, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_generate_with_and_without_a_cache(net, family):
    network = net(family)
    model = trained(graft(network.model, "mhc"))
    grown = [model.generate(network.inputs, attention_mask=torch.ones_like(network.inputs),
                            max_new_tokens=5, do_sample=False, use_cache=cache)
             for cache in (True, False)]
    assert grown[0].shape == (2, 12) and torch.equal(*grown)


@pytest.mark.parametrize("name, options", READING)
def test_a_residual_that_reads_other_positions_is_refused_a_cache(net, name, options):
    network = net("gpt2")
    model = trained(graft(network.model, name, plain=False, **options))
    first = model(network.inputs, use_cache=True)  # the whole text at once is no matter
    with pytest.raises(ValueError, match="^use_cache must be False: .* reads other positions"):
        model(network.inputs[:, :1], past_key_values=first.past_key_values, use_cache=True)
    with pytest.raises(ValueError, match="^use_cache must be False"):
        model.generate(network.inputs, max_new_tokens=3)
    grown = model.generate(network.inputs, max_new_tokens=3, use_cache=False)
    assert grown.shape == (2, 10)


@pytest.mark.parametrize("name", sorted(ANYWHERE))
def test_inference_mode_computes_and_generates_what_no_grad_does(net, name):
    network = net("llama", layers=2)
    model, tokens = trained(graft(network.model, name, plain=False)), network.inputs
    cache = not model.model.layers[0].reads_other_positions
    found = []
    for context in (torch.inference_mode, torch.no_grad):
        with context():
            found += [model(tokens, use_cache=False).logits,
                      model.generate(tokens, attention_mask=torch.ones_like(tokens),
                                     max_new_tokens=3, do_sample=False, use_cache=cache)]
    assert_close(found[:2], found[2:], rtol=0, atol=0)
    model(tokens, use_cache=False).logits.sum().backward()  # no tensor of inference mode is kept


def test_hidden_states_between_the_blocks_are_states(net):
    network = net("llama")
    graft(network.model, "mhc", streams=3)
    output = network.model(network.inputs, output_hidden_states=True)
    assert [tuple(h.shape) for h in output.hidden_states] == [
        (2, 7, 32), (2, 7, 3, 32), (2, 7, 3, 32), (2, 7, 32)]


def test_attentions_are_handed_out_as_ever(net):
    network = net("llama", attn_implementation="eager")
    graft(network.model, "mhc")
    attentions = network.model(network.inputs, output_attentions=True).attentions
    assert [tuple(a.shape) for a in attentions] == [(2, 4, 7, 7)] * 3


@pytest.mark.parametrize("family", FAMILIES)
def test_saved_weights_come_back_into_a_class_that_grafts_itself(net, family, tmp_path):
    network = net(family)
    plain = type(network.model)

    class WithStreams(plain):
        def __init__(self, config):
            super().__init__(config)
            graft(self, "mhc", streams=2)

    model = trained(graft(network.model, "mhc", streams=2))
    model.save_pretrained(tmp_path)
    again, report = WithStreams.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert torch.equal(network.run(again), network.run(model))


@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_saved_weights_come_back_by_grafting_again(net, transformers, family, tmp_path):
    from safetensors.torch import load_model
    network = net(family)
    model = trained(graft(network.model, "jpmhc"))
    model.save_pretrained(tmp_path)
    again = type(net(family).model).from_pretrained(tmp_path)
    load_model(graft(again, "jpmhc"), tmp_path / "model.safetensors", strict=True)
    assert torch.equal(network.run(again), network.run(model))


def test_cross_attention_in_gpt2_is_refused(net):
    network = net("gpt2", add_cross_attention=True)
    with pytest.raises(ValueError, match="^add_cross_attention must be False"):
        graft(network.model, "mhc")


def test_an_old_version_is_refused(net, monkeypatch):
    network = net("gpt2")
    monkeypatch.setattr("geolab.graft.rules.metadata.version", lambda package: "4.57.6")
    with pytest.raises(ValueError, match="^transformers must be at least 5.5, .* got 4.57.6"):
        graft(network.model, "mhc")
