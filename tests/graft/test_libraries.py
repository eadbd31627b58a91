"""What the libraries can do to their blocks, a grafted one can take: forms, options, masks."""

import copy

import pytest
import torch
from shared import trained
from torch.testing import assert_close

from geolab.graft import Grafted, graft, ungraft
from geolab.penalties import collect_penalties


def require_same(network, residual="mhc", **more):
    """Graft, and assert that the network computes what it did with these arguments."""
    before = network.run(network.model, **more)
    graft(network.model, residual)
    assert_close(network.run(network.model, **more), before, rtol=1e-5, atol=1e-5)
    return before


# ---------------------------------------------------------------- torch

@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("family", ["encoder", "decoder"])
@pytest.mark.parametrize("name", ["mhc", "hyper"])
def test_torch_s_layers_in_all_their_forms(net, family, batch_first, norm_first, name):
    network = net(family, batch_first=batch_first, norm_first=norm_first)
    before = require_same(network, name)
    with torch.no_grad():  # where torch takes its fast path around the layers' forward
        assert_close(network.run(network.model.eval()), before, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("family", ["encoder", "decoder"])
def test_positions_are_positions_whichever_axis_comes_first(net, family):
    outputs = []
    for batch_first in (True, False):
        network = net(family, batch_first=batch_first)
        torch.manual_seed(0)
        graft(network.model, "benchmark-delta", plain=False)  # which pools over positions
        y = network.run(network.model)
        outputs.append(y if batch_first else y.transpose(0, 1))
    assert_close(*outputs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layers", [(2, 3), (1, 1)])
@pytest.mark.parametrize("only", [[], ["decoder.layers"]])
def test_a_whole_transformer_has_two_stacks_of_which_one_may_be_grafted(layers, only, recwarn):
    model = torch.nn.Transformer(32, 4, *layers, 48, dropout=0.0, norm_first=True,
                                 batch_first=True)
    source, target = torch.randn(2, 5, 32), torch.randn(2, 4, 32)
    before = model(source, target)
    graft(model, "mhc", only=only)
    assert_close(model(source, target), before, rtol=1e-5, atol=1e-5)
    assert {key.partition(".")[0] for key, part in model.named_modules()
            if isinstance(part, Grafted)} == ({"decoder"} if only else {"encoder", "decoder"})
    told = [str(warning.message) for warning in recwarn if "graft leaves" in str(warning.message)]
    assert len(told) == (bool(only) and layers[0] > 1)


def causal(length):
    return torch.nn.Transformer.generate_square_subsequent_mask(length)


PADDING = torch.zeros(2, 7, dtype=torch.bool).index_fill(1, torch.tensor([5, 6]), True)


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("more", [
    {"mask": causal(7)}, {"mask": causal(7), "is_causal": True}, {"src_key_padding_mask": PADDING},
    {"mask": causal(7) < 0, "src_key_padding_mask": PADDING}], ids=lambda more: "+".join(more))
def test_the_encoder_s_masks(net, more, training, norm_first):
    network = net("encoder", norm_first=norm_first)
    model = network.model.train(training)
    with torch.set_grad_enabled(training):  # without gradients torch packs what isn't padded
        before = network.run(model, **more)
        after = network.run(graft(model, "mhc", example={"src": network.inputs} | more), **more)
    assert_close(after[:, :5], before[:, :5], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("more", [
    {"tgt_mask": causal(7), "tgt_is_causal": True}, {"tgt_key_padding_mask": PADDING},
    {"memory_mask": torch.randn(7, 4)},
    {"memory_key_padding_mask": torch.tensor([[False] * 3 + [True]] * 2)}],
    ids=lambda more: "+".join(more))
def test_the_decoder_s_masks(net, more):
    network = net("decoder")
    plain = network.run(network.model)
    assert not torch.allclose(require_same(network, **more), plain, atol=1e-2)


# ---------------------------------------------------------------- timm and transformers

def test_the_masks_of_a_vit(net):
    network = net("vit")
    model, x = network.model.eval(), network.inputs
    mask = causal(5)  # of a class token and four patches
    before = model.forward_features(x, attn_mask=mask)
    assert not torch.allclose(before, model.forward_features(x), atol=1e-2)
    graft(model, "mhc")
    assert_close(model.forward_features(x, attn_mask=mask), before, rtol=1e-5, atol=1e-4)


def test_timm_s_ways_beside_forward_are_refused_and_come_back(timm):
    x = torch.randn(2, 3, 160, 160)
    model = timm.create_model("test_vit").eval()
    features = timm.create_model("test_vit", features_only=True, out_indices=(1, 3)).eval()
    wanted = model.forward_intermediates(x, intermediates_only=True)
    for grafted, call in ((model, lambda: model.forward_intermediates(x)),
                          (model, lambda: model.get_intermediate_layers(x)),
                          (model, lambda: model.prune_intermediate_layers([2])),
                          (features, lambda: features(x))):
        copy.deepcopy(graft(grafted, "mhc"))
        with pytest.raises(ValueError, match="runs blocks from outside of the model's forward"):
            call()
        ungraft(grafted)
    assert_close(model.forward_intermediates(x, intermediates_only=True), wanted, rtol=0, atol=0)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen2", "qwen3"])
def test_padding_doesn_t_change_what_stands_beside_it(net, family, side):
    network = net(family)
    model, tokens = trained(graft(network.model, "mhc")), network.inputs
    padding, on = torch.zeros_like(tokens[:, :3]), torch.ones_like(tokens)
    order = slice(None, None, 1 if side == "left" else -1)
    mask = torch.cat([padding, on][order], dim=1)
    y = model(torch.cat([padding, tokens][order], dim=1), attention_mask=mask,
              position_ids=(mask.cumsum(1) - 1).clamp(min=0)).logits
    assert_close(y[mask.bool()], model(tokens).logits.flatten(0, 1), rtol=1e-4, atol=1e-4)


def test_hidden_states_are_states_and_attentions_are_handed_out_as_ever(net):
    network = net("llama", attn_implementation="eager")
    graft(network.model, "mhc", streams=3)
    output = network.model.model(network.inputs, output_hidden_states=True, output_attentions=True)
    assert [tuple(h.shape) for h in output.hidden_states] == [
        (2, 7, 32), (2, 7, 3, 32), (2, 7, 3, 32), (2, 7, 32)]
    assert [tuple(a.shape) for a in output.attentions] == [(2, 4, 7, 7)] * 3


@pytest.mark.parametrize("name, reason", [("Bert", "post-norm"), ("T5", "position bias")])
def test_a_model_of_another_kind_is_refused_by_name(transformers, name, reason):
    sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, vocab_size=50)
    model = getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**sizes))
    with pytest.raises(ValueError, match=f"^graft takes no {name}Model: .*{reason}"):
        graft(model, "mhc")


def test_cross_attention_and_an_old_version_are_refused(net, monkeypatch):
    with pytest.raises(ValueError, match="^add_cross_attention must be False"):
        graft(net("gpt2", add_cross_attention=True).model, "mhc")
    model = net("gpt2").model
    monkeypatch.setattr("geolab.graft.rules.metadata.version", lambda package: "4.57.6")
    with pytest.raises(ValueError, match="^transformers must be at least 5.5, .* got 4.57.6"):
        graft(model, "mhc")


# ---------------------------------------------------------------- how a step is computed

@pytest.mark.parametrize("family, name", [("gpt2", "mhc"), ("llama", "emhc-hybrid"),
                                          ("vit", "mhc"), ("vit", "emhc-hybrid")])
def test_gradient_checkpointing_runs_a_block_twice_and_gives_the_same_gradients(net, family, name):
    network = net(family, dropout=0.1)
    model, calls, gradients = graft(network.model, name, plain=False).train(), [], []
    blocks = [part for part in model.modules() if isinstance(part, Grafted)]
    blocks[1].mlp.register_forward_hook(lambda *_: calls.append(1))
    start = next(getattr(model, way) for way in (
        "set_grad_checkpointing", "activation_checkpointing_enable",  # the latter from 5.20 on
        "gradient_checkpointing_enable") if hasattr(model, way))
    for switch in (lambda: None, start):
        switch()
        torch.manual_seed(1)
        model.zero_grad()
        with collect_penalties() as penalties:
            loss = (network.run(model) - 1).square().mean()
        (loss + sum(penalties)).backward()
        gradients.append([p.grad.clone() for p in model.parameters() if p.grad is not None])
        assert len(penalties) == (6 if name == "emhc-hybrid" else 0)
    assert_close(gradients[1], gradients[0], rtol=1e-5, atol=1e-7)
    assert len(calls) == 1 + 2


def test_it_compiles(net):
    network = net("vit", layers=2)
    model = graft(network.model, "mgt", plain=False)
    eager = network.run(model.eval())
    torch._dynamo.reset()
    y = network.run(torch.compile(model, backend="aot_eager"))
    assert_close(y, eager, rtol=1e-4, atol=1e-4)
    y.square().mean().backward()
    assert all(p.grad is not None for key, p in model.named_parameters() if ".residuals." in key)


@pytest.mark.parametrize("family, name", [("gpt2", "hyper"), ("vit", "mhc"), ("encoder", "mhc")])
def test_it_trains_under_autocast(net, family, name):
    network = net(family)
    model = graft(network.model, name, plain=False)
    plain = network.run(model)
    with torch.autocast("cpu", torch.bfloat16):
        y = network.run(model).float()
    y.square().mean().backward()
    assert_close(y, plain, rtol=0.1, atol=0.1 * plain.abs().max().item())
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
