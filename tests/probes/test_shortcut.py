import itertools

import pytest
import torch
from shared import FORMS, shaken, stack
from torch.testing import assert_close

from geolab.models import ContinuousModel, Transformer, TransformerConfig
from geolab.probes import operators_by_layer, shortcut_matrix
from geolab.probes.shortcut import StepAlone
from geolab.residuals import REGISTRY, Residual

WIDTH, LAYERS = 16, 3


def model(residual, **options):
    torch.manual_seed(0)
    config = TransformerConfig.benchmark(width=WIDTH, layers=LAYERS, heads=2, max_length=8)
    return ContinuousModel(Transformer(config, residual, **options), 5).double()


def inputs():
    return torch.randn(2, 7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_a_trunk_gives_what_the_model_around_it_gives_without_a_graph(name):
    around, x = model(name), inputs()
    layers = operators_by_layer(around, x)
    assert len(layers) == 2 * LAYERS
    for a, b in zip(layers, operators_by_layer(around.trunk, around.read(x)), strict=True):
        assert bool(a) == hasattr(REGISTRY[name], "coefficients")
        assert not any(part.requires_grad for part in a if a and part is not None)
        if isinstance(a, StepAlone):
            assert a.residual is b.residual
            a, b = (a.state,), (b.state,)
        for one, other in zip(a, b, strict=True):
            assert one is other is None or torch.equal(one, other)


# ---------------------------------------------------------------- the shortcut

HELD = [*FORMS, ("value-residual", {}), ("delta", {"erase": False}), ("delta", {"beta_fixed": 2.0}),
        ("delta-matrix", {"erase": False, "normalize": False, "beta_fixed": 1.0}),
        ("jpmhc", {"retraction": "exact"}), ("emhc-hybrid", {"gate": "hard"}),
        ("emhc-stream", {"gate": "hard"}), ("emhc-cayley", {"pool": "sequence"})]


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


@pytest.mark.parametrize("name, options", HELD, ids=str)
def test_the_shortcut_is_the_jacobian_of_a_step_whose_coefficients_are_held(name, options):
    torch.manual_seed(0)
    first, residual, _ = shaken(stack(name, WIDTH, 3, **options).double())
    F = torch.randn(WIDTH, WIDTH, dtype=torch.float64) / 4
    x = torch.randn(1, 3, WIDTH, dtype=torch.float64)
    state = first.expand(x).detach()
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

class Gated(Residual):
    """x ← tanh(x) + F(x): not linear in the state."""

    def forward(self, state, sublayer):
        return state.tanh() + sublayer(state)


def test_its_shortcut_is_the_jacobian_of_the_step_without_the_sublayer():
    for layer in operators_by_layer(model(Gated), inputs()):
        slope = 1 - layer.state.tanh().square()
        assert_close(shortcut_matrix(layer), torch.diag_embed(slope), rtol=0, atol=1e-12)
