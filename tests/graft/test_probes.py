"""Every public probe measures a grafted network of transformers."""

import pytest
import torch
from shared import ANYWHERE, shaken
from test_every_probe import require_measured, weighs_features
from torch import nn

from geolab.graft import graft
from geolab.probes import depth_weights, operators_by_layer, states, stream_usage
from geolab.residuals import REGISTRY


class Trunk(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net, self.layers = net, net.h

    def forward(self, x):
        return self.net(inputs_embeds=x).last_hidden_state


class Around(nn.Module):
    """(B, T, 5) -> (B, T, 5), as the cases of the probes ask for."""

    def __init__(self, net, width):
        super().__init__()
        self.read, self.trunk, self.write = nn.Linear(5, width), Trunk(net), nn.Linear(width, 5)

    def forward(self, x):
        return self.write(self.trunk(self.read(x)))


@pytest.fixture
def grafted(net):
    def make(residual):
        made = net("gpt2", layers=2)
        return graft(made.model, residual, plain=False).eval(), made.inputs
    return make


@pytest.mark.parametrize("name", ["additive", "delta", "mhc"])
def test_every_probe_measures_a_grafted_gpt2(grafted, name):
    model = Around(grafted(name)[0].transformer, 32)
    x = torch.randn(2, 7, 5, generator=torch.Generator().manual_seed(1))
    require_measured(name, model, x)


@pytest.mark.parametrize("name", sorted(ANYWHERE))
def test_the_operators_are_those_of_the_run_with_its_cache(grafted, name):
    """A cache is filled by each run of a sublayer, so that looking must not run one again."""
    model, tokens = grafted(name)
    runs = []
    for block in model.transformer.h:
        block.attn.register_forward_hook(lambda *_: runs.append(1))
    found = operators_by_layer(model, tokens)
    assert len(found) == 4 and len(runs) == 2
    model.config.use_cache = False
    for step, again in zip(found, operators_by_layer(model, tokens)):
        for a, b in zip(step, again):
            assert not isinstance(a, torch.Tensor) or torch.equal(a, b)


@pytest.mark.parametrize("name", sorted(ANYWHERE))
def test_who_hears_whom_in_a_grafted_llama(net, name):
    made = net("llama", layers=2)
    model = shaken(graft(made.model, name, plain=False).eval(), size=0.1)
    before = made.run(model)
    if not weighs_features(model, made.inputs):
        with pytest.raises(ValueError, match=f"with {REGISTRY[name].__name__} it is"):
            depth_weights(model, made.inputs)
    else:
        weights, outputs, inputs = depth_weights(model, made.inputs)
        assert len(inputs) == 5
        for a, u in zip(weights, inputs, strict=True):
            assert ((a * outputs).sum(0) - u).abs().max() <= 2e-6 * u.abs().max()
    assert torch.equal(before, made.run(model))


def test_how_a_grafted_llama_uses_its_streams(net):
    made = net("llama", layers=2)
    model = shaken(graft(made.model, "mhc").eval(), size=0.1)  # copies would stay copies
    usage = stream_usage(model, made.inputs,
                         loss=lambda output: output.logits.square().mean())
    assert [len(part) for sublayer in usage for part in sublayer] == [4] * 16
    assert usage[0].change.abs().max() < 1e-6 < usage[1].change.abs().min()


def test_a_network_without_residuals_is_refused(net):
    made = net("gpt2")
    with pytest.raises(ValueError, match="^model must run residuals, got GPT2LMHeadModel, which"):
        operators_by_layer(made.model, made.inputs)


def test_states_take_the_first_of_what_a_layer_takes_and_gives():
    class Pair(nn.Module):
        def forward(self, x, mask):
            return x + 1, mask

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Pair(), Pair()])

        def forward(self, x):
            for layer in self.layers:
                x, _ = layer(x=x, mask=None)
            return x

    model = Two()
    assert [float(s) for s in states(model, model.layers, torch.zeros(()))] == [0, 1, 2]
