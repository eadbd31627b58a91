"""Who hears whom, against the sums that it must be, and against products of coefficients."""

from typing import NamedTuple

import pytest
import torch
from shared import shaken
from test_every_probe import small_model, weighs_features
from torch import nn
from torch.testing import assert_close

from geolab.models import Transformer, TransformerConfig
from geolab.probes import depth_weights, operators_by_layer, stream_usage
from geolab.residuals import REGISTRY, Residual

OPTIONS = [("hyper", {"dynamic": False}), ("hyper", {"streams": 1}), ("mhc", {"without": ("mix",)}),
           ("mhc", {"readout": "learned"}), ("jpmhc", {"ends": "copied"}),
           ("mgt", {"erase": False}), ("emhc-stream", {"gate": "hard", "router_reads": "mixed"}),
           ("emhc-stream", {"pool": "sequence"})]


def trunk(residual, layers=2, **options):
    torch.manual_seed(0)
    config = TransformerConfig(width=16, layers=layers, heads=2, hidden=32, max_length=8)
    model = Transformer(config, residual, **options).double()
    shaken(model, 0.1)
    return model, torch.randn(2, 7, model.width, dtype=torch.float64)


def require_sums(found, close):
    weights, outputs, inputs = found
    for t, (a, u) in enumerate(zip(weights, inputs, strict=True)):
        assert ((a * outputs).sum(0) - u).abs().max() <= close * u.abs().max()
        assert not a[t + 1:].any()


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_input_is_the_weighted_sum_of_the_outputs_before_it(name):
    model, x = small_model(name)
    if not weighs_features(model, x):
        with pytest.raises(ValueError, match=f"^the input .* with {REGISTRY[name].__name__} it is"):
            depth_weights(model, x)
    else:
        require_sums(depth_weights(model, x), 2e-6)
        require_sums(depth_weights(model.double(), x.double()), 1e-12)


@pytest.mark.parametrize("name, options", OPTIONS, ids=str)
def test_so_it_is_with_other_options(name, options):
    require_sums(depth_weights(*trunk(name, **options)), 1e-12)


@pytest.mark.parametrize("name", ["additive", "mhc", "emhc-stream", "mgt"])
def test_inputs_and_outputs_are_those_of_the_models_own_run(name):
    model, x = trunk(name)
    heard, said = [], []
    hooks = [hook for layer in model.layers for hook in (
        layer.norm.register_forward_pre_hook(lambda _, given: heard.append(given[0])),
        layer.mix.register_forward_hook(lambda _, given, found: said.append(found)))]
    hooks.append(model.norm.register_forward_pre_hook(lambda _, given: heard.append(given[0])))
    y = model(x).detach()
    for hook in hooks:
        hook.remove()
    _, outputs, inputs = depth_weights(model, x)
    assert_close(inputs, torch.stack(heard), rtol=1e-13, atol=1e-13)
    assert_close(outputs, torch.stack([x, *said]), rtol=1e-13, atol=1e-13)
    assert torch.equal(model(x), y) and not any("forward" in vars(m) for m in model.modules())


@pytest.mark.parametrize("recompute", [0, 1])
@pytest.mark.parametrize("name", ["hyper", "mhc"])
def test_the_weights_of_streams_are_products_of_their_coefficients(name, recompute):
    model, x = trunk(name)
    model.recompute = recompute
    steps = operators_by_layer(model, x)
    weights = depth_weights(model, x).weights
    for t, read in enumerate([step.read for step in steps] + [torch.ones_like(steps[0].read) / (
            1 if name == "hyper" else 4)]):
        for s in range(t + 1):
            written = steps[s - 1].write if s else torch.ones_like(read)
            for step in steps[s:t]:
                written = (step.mix @ written.unsqueeze(-1)).squeeze(-1)
            expected = (read * written).sum(-1, keepdim=True).expand_as(weights[t, s])
            assert_close(weights[t, s], expected, rtol=1e-12, atol=1e-12)


def test_the_plain_residual_hears_all_alike_and_layer_scale_by_its_scales():
    model, x = trunk("additive")
    ones = torch.ones(5, 5).double().tril()[..., None, None, None]
    weights = depth_weights(model, x).weights
    assert torch.equal(weights, ones.expand_as(weights))
    model, x = trunk("layer-scale")
    weights = depth_weights(model, x).weights
    for s, layer in enumerate(model.layers, start=1):
        assert torch.equal(weights[-1, s], layer.residual.scale.expand_as(weights[-1, s]))


# ---------------------------------------------------------------- residuals that don't exist yet

class NormedUpdate(Residual):
    """x ← x + norm F(x), feature by feature."""

    def forward(self, state, sublayer):
        return state + nn.functional.rms_norm(sublayer(state), (self.width,))


class Shifted(Residual):
    """x ← x + c + F(x), which makes something of nothing."""

    def forward(self, state, sublayer):
        return state + 1 + sublayer(state)


class Twice(Residual):
    """x ← x + 2 F(x), by two runs of F."""

    def forward(self, state, sublayer):
        return state + sublayer(state) + sublayer(state)


class Rational(Residual):
    """x ← x / (1 + |x|²) + F(x), whose factor nobody holds."""

    def forward(self, state, sublayer):
        return state / (1 + state.square().sum(-1, keepdim=True)) + sublayer(state)


class Late(NamedTuple):
    """Streams, and what the next sublayer reads them with."""

    streams: torch.Tensor
    read: torch.Tensor


class Growing(Residual):
    """Each sublayer adds a stream, and reads them all as the sublayer before it says."""

    def observe(self, state, sublayer):
        return ()

    def coefficients(self, streams):
        return streams.mean(-1).sigmoid()

    def expand(self, x):
        return Late(x.unsqueeze(-2), torch.ones_like(x[..., :1]))

    def forward(self, state, sublayer):
        x, read = state
        y = sublayer((read.unsqueeze(-1) * x).sum(-2))
        streams = torch.cat([x, y.unsqueeze(-2)], dim=-2)
        return Late(streams, self.coefficients(streams))

    def reduce(self, state):
        return state.streams.mean(-2)


def test_a_norm_of_what_a_sublayer_says_is_a_weight():
    require_sums(depth_weights(*trunk(NormedUpdate)), 1e-12)


def test_a_state_may_be_a_named_tuple_and_its_streams_may_grow():
    model, x = trunk(Growing)
    require_sums(depth_weights(model, x), 1e-12)
    for n, step in enumerate(stream_usage(model, x), start=1):
        assert len(step.read) == len(step.change) == n


# ---------------------------------------------------------------- what is refused

@pytest.mark.parametrize("residual, options, message", [
    ("delta", {}, r"^the input of sublayer 2 must be a sum .* with Delta it is 0\.\d+ away from"),
    ("emhc-exact", {}, "^the input of sublayer 1 must be a sum .* with Exact it is"),
    (Shifted, {}, "with Shifted it is .* a step adds a constant"),
    (Rational, {}, "with Rational it is .* isn't given by a method `coefficients`$"),
    (Twice, {}, "^Twice must run its sublayer once .* got 2 runs$"),
    ("jpmhc", {"ends": "split"}, "^JPmHC must have as many features at the network's ends"),
])
def test_a_residual_whose_inputs_are_no_such_sums_is_refused(residual, options, message):
    with pytest.raises(ValueError, match=message):
        depth_weights(*trunk(residual, **options))


@pytest.mark.parametrize("probe", [depth_weights, stream_usage])
def test_a_model_must_run_one_stack_of_residuals(probe):
    x = torch.randn(2, 7, 16, dtype=torch.float64)
    with pytest.raises(ValueError, match="^model must run residuals, got Linear, which runs none"):
        probe(nn.Linear(16, 16).double(), x)
    two = nn.Sequential(trunk("hyper")[0], trunk("hyper")[0])
    with pytest.raises(ValueError, match="one stack of residuals, .* got 2 entries and 2 exits$"):
        probe(two, x)
