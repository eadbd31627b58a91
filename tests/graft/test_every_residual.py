"""Laws over every residual of the registry in a network of a library."""

import pytest
import torch
from shared import ANYWHERE, AS_THEY_ARE, trained
from torch import nn
from torch.testing import assert_close

from geolab.graft import distance_from_plain, graft, reads_other_positions
from geolab.graft.block import make_residuals
from geolab.probes import operators_by_layer, states

every_residual = pytest.mark.parametrize("name", sorted(ANYWHERE))
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
READING = ["delta-matrix", "emhc-cayley", "emhc-hybrid", "emhc-geodesic", "emhc-stream",
           "benchmark-delta"]


def new(model):
    return {key: p for key, p in model.state_dict().items() if ".residuals." in key}


# ---------------------------------------------------------------- where they start

def test_the_lists_say_which_residuals_start_plain_and_which_read_other_positions():
    assert [name for name in ANYWHERE if distance_from_plain(name, 32) <= 1e-5] == AS_THEY_ARE
    assert [name for name in ANYWHERE if reads_other_positions(name, 32)] == READING
    assert not reads_other_positions("emhc-hybrid", 32, pool="token")
    assert not reads_other_positions("delta-matrix", 32, compress="channel")
    assert reads_other_positions("delta-matrix", 32, compress="channel", expand="conv")


@pytest.mark.parametrize("name, options", PLAIN, ids=lambda value: str(value))
@pytest.mark.parametrize("family", ["gpt2", "vit"])
@torch.no_grad()
def test_one_that_starts_plain_changes_no_prediction(net, family, name, options):
    network = net(family)
    before = network.run(network.model.eval())
    graft(network.model, name, **options)
    assert_close(network.run(network.model), before, rtol=1e-5, atol=1e-5 * before.abs().max())


@pytest.mark.parametrize("name", sorted(set(ANYWHERE) - set(AS_THEY_ARE)))
def test_one_that_does_not_is_refused_and_leaves_the_network(net, name):
    network = net("nanogpt")
    keys, before = list(network.model.state_dict()), network.run(network.model)
    with pytest.raises(ValueError, match=rf"^residual '{name}' must start as the plain network, "
                       r"with its options left as they are: its output starts \d\S* away.*"
                       r"plain=False"):
        graft(network.model, name)
    assert list(network.model.state_dict()) == keys
    assert torch.equal(network.run(network.model), before)
    graft(network.model, name, plain=False)
    assert not torch.allclose(network.run(network.model), before, atol=1e-4)


def require_same_start(model, name):
    """What no seed changes is as in the residuals of a direct graft; all else is of their size."""
    one, two = (nn.ModuleList(make_residuals(name, 32, 4)) for _ in range(2))
    starts = zip(new(model).items(), one.state_dict().items(), two.state_dict().values(),
                 strict=True)
    for (key, got), (other, a), b in starts:
        assert key.endswith(other.partition(".")[2]) and got.dtype == a.dtype, key
        assert torch.equal(got[a == b], a[a == b]), key
        assert got.isfinite().all() and got.abs().max() <= 3 * a.abs().max(), key


@every_residual
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_class_that_grafts_itself_loads_a_plain_checkpoint(net, family, name, tmp_path):
    network = net(family, layers=2)
    network.model.save_pretrained(tmp_path)
    kind = type(network.model)

    class WithStreams(kind):
        def __init__(self, config):
            super().__init__(config)
            graft(self, name, plain=False)
            if family == "gpt2":
                self.post_init()

    model = WithStreams.from_pretrained(tmp_path).eval()
    require_same_start(model, name)
    before = {key: p.clone() for key, p in new(model).items()}
    model.post_init()
    assert all(torch.equal(p, before[key]) for key, p in new(model).items())
    if name in AS_THEY_ARE:
        assert_close(network.run(model), network.run(network.model.eval()), rtol=0, atol=1e-5)


# ---------------------------------------------------------------- training and use

@pytest.mark.parametrize("family, name", [*(("gpt2", name) for name in sorted(ANYWHERE)),
                                          ("llama", "mhc"), ("vit", "mhc")])
def test_the_loss_falls_and_every_new_parameter_is_reached(net, family, name):
    network = net(family)
    model = graft(network.model, name, plain=False)
    missed = {key: p for key, p in model.named_parameters() if ".residuals." in key}
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-3), []
    for _ in range(4):
        loss = (network.run(model) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        missed = {key: p for key, p in missed.items() if p.grad is None or not p.grad.any()}
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] and not missed


@pytest.mark.parametrize("name, options", [
    *((name, {}) for name in sorted(ANYWHERE)), ("delta-matrix", {"compress": "channel"}),
    ("emhc-hybrid", {"pool": "token"})])
def test_inference_mode_and_a_cache_give_what_the_whole_text_gives(net, name, options):
    network = net("llama", layers=2)
    model, tokens = trained(graft(network.model, name, plain=False, **options)), network.inputs
    cached, found = not reads_other_positions(name, 32, **options), []
    for context, cache in ((torch.inference_mode, cached), (torch.no_grad, False)):
        with context():
            grown = model.generate(tokens, attention_mask=torch.ones_like(tokens),
                                   max_new_tokens=5, do_sample=False, use_cache=cache)
            found += [model(tokens, use_cache=False).logits, grown]
    assert_close(found[:2], found[2:], rtol=0, atol=0)
    assert found[1].shape == (2, 12)
    model(tokens, use_cache=False).logits.sum().backward()  # no tensor of inference mode is kept
    if cached:
        first = model(tokens[:, :4], use_cache=True)
        rest = model(tokens[:, 4:], past_key_values=first.past_key_values, use_cache=True)
        assert_close(torch.cat([first.logits, rest.logits], 1), found[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", READING)
def test_one_that_reads_other_positions_generates_without_a_cache_alone(net, name):
    network = net("gpt2")
    model, tokens = trained(graft(network.model, name, plain=False)), network.inputs
    first = model(tokens, use_cache=True)  # the whole text at once is no matter
    with pytest.raises(ValueError, match="^use_cache must be False: .* reads other positions"):
        model(tokens[:, :1], past_key_values=first.past_key_values, use_cache=True)
    with pytest.raises(ValueError, match="^use_cache must be False"):
        model.generate(tokens, max_new_tokens=3)
    assert model.generate(tokens, max_new_tokens=3, use_cache=False).shape == (2, 10)


# ---------------------------------------------------------------- probes

@every_residual
def test_the_operators_are_those_of_the_run_with_its_cache(net, name):
    """Each run of a sublayer adds to a cache, so looking must not run one again."""
    network, runs = net("gpt2", layers=2), []
    model = graft(network.model, name, plain=False).eval()
    for block in model.transformer.h:
        block.attn.register_forward_hook(lambda *_: runs.append(1))
    found = operators_by_layer(model, network.inputs)
    assert len(found) == 4 and len(runs) == 2
    model.config.use_cache = False
    for step, again in zip(found, operators_by_layer(model, network.inputs)):
        for a, b in zip(step, again):
            assert not isinstance(a, torch.Tensor) or torch.equal(a, b)


def test_states_take_the_first_of_what_a_block_gives(net):
    network = net("gpt_neox")
    blocks = network.model.gpt_neox.layers
    wanted = network.model(network.inputs, output_hidden_states=True).hidden_states
    found = states(network.model, blocks, network.inputs)
    assert_close(found[:-1], list(wanted[:-1]), rtol=0, atol=0)  # the last one is normed
