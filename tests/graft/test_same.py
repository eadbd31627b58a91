"""A network computes after the graft what it computed before."""

import pytest
import torch
from shared import ANYWHERE, AS_THEY_ARE
from torch.testing import assert_close

from geolab.graft import Grafted, distance_from_plain, graft

FROZEN_WRITE = dict(erase=False, normalize=False, beta_fixed=0.5, value="constant")
PLAIN = [*((name, {}) for name in AS_THEY_ARE),
         ("hyper", {"dynamic": False}), ("hyper", {"tanh": False, "streams": 3}),
         ("mhc", {"readout": "learned", "streams": 2}),
         ("jpmhc", {"ends": "copied"}), ("jpmhc", {"retraction": "exact"}),
         ("attnres", {"read": "sum"}), ("attnres", {"read": "sum", "block": 4}),
         *((name, {"start": 1.0}) for name in ("layer-scale", "rezero")),
         ("deepnorm", {"alpha": 1.0}), ("mgt", {"gate": False}), ("delta-matrix", FROZEN_WRITE),
         ("emhc-cayley", {"beta_init": 1e-6}),
         ("emhc-hybrid", {"beta_init": 1e-6, "gate": "hard"}),
         ("emhc-geodesic", {"beta_init": 1e-6, "gate_bias": 20.0})]
FAMILIES = ["gpt2", "llama", "qwen2", "qwen3", "vit", "encoder", "decoder", "nanogpt"]


def same(net, residual, options, before):
    graft(net.model, residual, **options)
    assert_close(net.run(net.model), before, rtol=1e-5, atol=1e-5 * before.abs().max().item())


def test_the_lists_say_which_residuals_start_plain():
    plain = [name for name in ANYWHERE if distance_from_plain(name, 32) <= 1e-5]
    assert plain == AS_THEY_ARE


@pytest.mark.parametrize("name, options", PLAIN, ids=lambda value: str(value))
@pytest.mark.parametrize("family", ["gpt2", "vit"])
def test_every_residual_that_starts_plain(net, family, name, options):
    network = net(family)
    with torch.no_grad():
        same(network, name, options, network.run(network.model.eval()))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_keeps_its_classes_and_the_names_of_its_parameters(net, family):
    network = net(family)
    names = {name: type(module) for name, module in network.model.named_modules()}
    before = dict(network.model.named_parameters())
    with torch.no_grad():
        same(network, "mhc", {}, network.run(network.model.eval()))
    after = dict(network.model.named_modules())
    assert all(isinstance(after[name], kind) and type(after[name]).__name__ == kind.__name__
               for name, kind in names.items())
    assert sum(isinstance(module, Grafted) for module in after.values()) == 3
    now = dict(network.model.named_parameters())
    assert all(now[name] is p for name, p in before.items())
    assert all(".residuals." in name for name in set(now) - set(before))


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("family", ["encoder", "decoder"])
@pytest.mark.parametrize("name", ["mhc", "hyper"])
def test_torch_s_layers_in_all_their_forms(net, family, batch_first, norm_first, name):
    network = net(family, batch_first=batch_first, norm_first=norm_first)
    before = network.run(network.model)
    same(network, name, {}, before)
    network.model.eval()
    with torch.no_grad():  # where torch takes its fast path around the layers' forward
        assert_close(network.run(network.model), before, rtol=1e-5, atol=1e-4)


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
def test_a_whole_transformer_has_two_stacks(layers):
    torch.manual_seed(0)
    model = torch.nn.Transformer(32, 4, *layers, 48, dropout=0.0, norm_first=True,
                                 batch_first=True)
    source, target = torch.randn(2, 5, 32), torch.randn(2, 4, 32)
    before = model(source, target)
    graft(model, "mhc")
    assert_close(model(source, target), before, rtol=1e-5, atol=1e-5)
    firsts = [m for m in model.modules() if isinstance(m, Grafted) and m.residuals[0].first]
    lasts = [m for m in model.modules() if isinstance(m, Grafted) and m.residuals[-1].last]
    assert firsts == [model.encoder.layers[0], model.decoder.layers[0]]
    assert lasts == [model.encoder.layers[-1], model.decoder.layers[-1]]


@pytest.mark.parametrize("family, options", [
    ("vit", {"init_values": 0.3}), ("vit", {"drop_path_rate": 0.5}), ("vit", {"qk_norm": True}),
    ("vit", {"class_token": False, "global_pool": "avg"}), ("gpt2", {"n_inner": 40}),
    ("gpt2", {"attn_implementation": "eager", "scale_attn_by_inverse_layer_idx": True}),
    ("llama", {"attn_implementation": "eager", "attention_bias": True}),
    ("qwen2", {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1}),
])
def test_options_of_the_libraries(net, family, options):
    network = net(family, **options)
    torch.manual_seed(1)
    with torch.no_grad():
        before = network.run(network.model)
        graft(network.model, "jpmhc")
        torch.manual_seed(1)  # what stochastic depth drops
        assert_close(network.run(network.model), before, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_dropout_draws_what_it_drew(net, family):
    network = net(family, dropout=0.3)
    network.model.train()
    torch.manual_seed(1)
    before = network.run(network.model)
    graft(network.model, "mhc")
    torch.manual_seed(1)
    assert_close(network.run(network.model), before, rtol=1e-5, atol=1e-4)
    assert not torch.equal(network.run(network.model), network.run(network.model))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_network_in_another_dtype(net, dtype):
    network = net("llama")
    model = network.model.to(dtype)
    before = network.run(model)
    graft(model, "mhc")
    new = {p.dtype for key, p in model.named_parameters() if ".residuals." in key}
    assert new == {torch.promote_types(dtype, torch.float32)}
    tolerance = 1e-5 if dtype == torch.float64 else 0.05
    assert_close(network.run(model), before, rtol=tolerance,
                 atol=tolerance * before.abs().max().item())


# ---------------------------------------------------------------- masks

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
        after = network.run(graft(model, "mhc"), **more)
    assert_close(after[:, :5], before[:, :5], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("more", [
    {"tgt_mask": causal(7), "tgt_is_causal": True}, {"tgt_key_padding_mask": PADDING},
    {"memory_mask": torch.randn(7, 4)},
    {"memory_key_padding_mask": torch.tensor([[False] * 3 + [True]] * 2)}],
    ids=lambda more: "+".join(more))
def test_the_decoder_s_masks(net, more):
    network = net("decoder")
    before = network.run(network.model, **more)
    plain = network.run(network.model)
    after = network.run(graft(network.model, "mhc"), **more)
    assert_close(after, before, rtol=1e-5, atol=1e-4)
    assert not torch.allclose(after, plain, atol=1e-2)


def test_the_masks_of_a_vit(net):
    network = net("vit")
    model, x = network.model.eval(), network.inputs
    mask = causal(5)  # of a class token and four patches
    before = model.forward_features(x, attn_mask=mask)
    assert not torch.allclose(before, model.forward_features(x), atol=1e-2)
    graft(model, "mhc")
    assert_close(model.forward_features(x, attn_mask=mask), before, rtol=1e-5, atol=1e-4)
