import itertools

import pytest
import torch
from torch.testing import assert_close

from geolab.models import ContinuousModel, Transformer, TransformerConfig
from geolab.operators import delta_update, stream_mix_write, stream_read
from geolab.probes import (
    operators_by_layer,
    shortcut_matrix,
    states,
)
from geolab.probes.shortcut import StepAlone
from geolab.residuals import REGISTRY, Residual, make_residual
from studies.claims.configurations import DDL_CONTROLS, MGT_VARIANTS

WIDTH, LAYERS = 16, 3


def model(residual, **options):
    torch.manual_seed(0)
    config = TransformerConfig.benchmark(width=WIDTH, layers=LAYERS, heads=2, max_length=8)
    return ContinuousModel(Transformer(config, residual, **options), 5).double()


def inputs():
    return torch.randn(2, 7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


every_residual = pytest.mark.parametrize("name", sorted(REGISTRY))


@every_residual
def test_each_sublayer_gives_what_its_residual_computes_by_name(name):
    layers = operators_by_layer(model(name), inputs())
    assert len(layers) == 2 * LAYERS
    for layer in layers:
        assert bool(layer) == hasattr(REGISTRY[name], "coefficients")
        if layer:
            assert not any(part.requires_grad for part in layer if part is not None)


@every_residual
def test_a_trunk_gives_what_the_model_around_it_gives(name):
    around, x = model(name), inputs()
    for a, b in zip(operators_by_layer(around, x), operators_by_layer(around.trunk, around.read(x)),
                    strict=True):
        if isinstance(a, StepAlone):
            assert a.residual is b.residual
            a, b = (a.state,), (b.state,)
        for one, other in zip(a, b, strict=True):
            assert one is other is None or torch.equal(one, other)


def test_they_are_what_takes_each_state_to_the_next():
    trunk = model("delta").trunk
    x = torch.randn(2, 7, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    seen = states(trunk, trunk.layers, x)
    for layer, before, after in zip(operators_by_layer(trunk, x), seen[:-1], seen[1:], strict=True):
        assert_close(delta_update(before, *layer), after)
    trunk = model("mhc").trunk
    seen = states(trunk, trunk.layers, x)
    for module, layer, before, after in zip(trunk.layers, operators_by_layer(trunk, x), seen[:-1],
                                            seen[1:], strict=True):
        update = module.sublayer(stream_read(before, layer.read))
        assert_close(stream_mix_write(before, layer.mix, layer.write, update), after)


# ---------------------------------------------------------------- the shortcut

CONTROLS = [
    ("delta", {"erase": False}), ("delta", {"beta_fixed": 2.0}), ("delta", {"map": "v"}),
    *(("delta-matrix", control) for control in DDL_CONTROLS.values()),
    ("delta-matrix", {"channels": 3, "expand": "conv"}),
    *(("mgt", ablation) for ablation in MGT_VARIANTS.values()),
    ("hyper", {"dynamic": False}), ("hyper", {"streams": 2}), ("mhc", {"without": ("mix",)}),
    ("attnres", {"block": 2, "values": "normed", "read": "sum"}), ("denseformer", {"block": 1}),
    ("delta-product", {"factors": 3}),
    ("jpmhc", {"retraction": "exact"}), ("emhc-hybrid", {"gate": "hard"}),
    ("emhc-hybrid", {"gate_head": "linear"}), ("emhc-stream", {"gate": "hard"}),
    ("emhc-cayley", {"pool": "sequence"})]


def held(found):
    """The same numbers, constant."""
    if isinstance(found, torch.Tensor):
        return found.detach()
    parts = [part if part is None else part.detach() for part in found]
    return tuple(parts) if type(found) is tuple else type(found)(*parts)


def frozen(residual):
    """The residual, whose coefficients and modules now give constants."""
    for child in residual.children():
        child.register_forward_hook(lambda child, given, found: held(found))
    for part in (residual, *residual.children()):
        if hasattr(part, "coefficients"):
            computed = part.coefficients
            part.coefficients = lambda *given, computed=computed: held(computed(*given))
    return residual


@pytest.mark.parametrize("name, options", [*((name, {}) for name in sorted(REGISTRY)), *CONTROLS],
                         ids=str)
def test_the_shortcut_is_the_jacobian_of_a_step_whose_coefficients_are_held(name, options):
    torch.manual_seed(0)
    residual = make_residual(name, WIDTH, index=1, count=3, **options).double()
    with torch.no_grad():
        for p in residual.parameters():
            p.add_(0.3 * torch.randn_like(p))
    F = torch.randn(WIDTH, WIDTH, dtype=torch.float64) / 4
    x = torch.randn(1, 3, WIDTH, dtype=torch.float64)
    state = make_residual(name, WIDTH, count=3, **options).double().expand(x).detach()
    state = state + torch.randn_like(state)

    operator = residual.observe(state, lambda x: x @ F) or StepAlone(residual, state)
    matrices = shortcut_matrix(operator).detach().double().expand(1, 3, -1, -1)
    frozen(residual)
    size = state[0, 0].numel()
    step = torch.autograd.functional.jacobian(lambda state: residual(state,
                                                                     lambda x: (x @ F).detach()),
                                              state)
    step = step.view(3, size, 3, size)
    for t, s in itertools.product(range(3), repeat=2):
        expected = torch.kron(matrices[0, t].contiguous(),
                              torch.eye(size // matrices.shape[-1]).double()) if t == s else 0
        assert_close(step[t, :, s], torch.as_tensor(expected).double().expand(size, size), rtol=0,
                     atol=1e-12)


# ---------------------------------------------------------------- a residual that declares nothing

class Mixed(Residual):
    """Two streams, X ← H X + F(mean of X), with an H that it does not declare."""

    H = torch.tensor([[1.0, 0.5], [-0.25, 2.0]], dtype=torch.float64)

    def expand(self, x):
        return torch.stack([x, x], dim=-2)

    def forward(self, state, sublayer):
        return self.H @ state + sublayer(state.mean(-2)).unsqueeze(-2)

    def reduce(self, state):
        return state.mean(-2)


class Gated(Residual):
    """x ← tanh(x) + F(x): not linear in the state."""

    def forward(self, state, sublayer):
        return state.tanh() + sublayer(state)


def test_its_shortcut_is_the_jacobian_of_the_step_without_the_sublayer():
    for layer in operators_by_layer(model(Mixed), inputs()):
        assert not layer and not shortcut_matrix(layer).requires_grad
        expected = torch.kron(Mixed.H, torch.eye(WIDTH).double()).expand(2, 7, -1, -1)
        assert_close(shortcut_matrix(layer), expected, rtol=0, atol=1e-12)
    for layer in operators_by_layer(model(Gated), inputs()):
        slope = 1 - layer.state.tanh().square()
        assert_close(shortcut_matrix(layer), torch.diag_embed(slope), rtol=0, atol=1e-12)


def test_a_step_that_forgets_the_state_has_the_shortcut_zero():
    class Forgetful(Residual):
        def forward(self, state, sublayer):
            return sublayer(state)

    for layer in operators_by_layer(model(Forgetful), inputs()):
        assert_close(shortcut_matrix(layer), torch.zeros(2, 7, WIDTH, WIDTH).double())
