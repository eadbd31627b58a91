import pytest
import torch
from torch.testing import assert_close

from geolab.models import ContinuousModel, Transformer, TransformerConfig, operators_by_layer, shortcut_matrix
from geolab.operators import delta_update, stream_mix_write, stream_read
from geolab.probes import composite_gain, spectrum, states, statistics_by_layer, stream_consensus
from geolab.residuals import REGISTRY

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
        assert layer == () if name == "additive" else layer._fields
        assert not any(part.requires_grad for part in layer if part is not None)


@every_residual
def test_a_trunk_gives_what_the_model_around_it_gives(name):
    around, x = model(name), inputs()
    for a, b in zip(operators_by_layer(around, x), operators_by_layer(around.trunk, around.read(x)), strict=True):
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
    for module, layer, before, after in zip(trunk.layers, operators_by_layer(trunk, x), seen[:-1], seen[1:], strict=True):
        update = module.sublayer(stream_read(before, layer.read))
        assert_close(stream_mix_write(before, layer.mix, layer.write, update), after)


@pytest.mark.parametrize("name", ["delta", "delta-matrix", "benchmark-delta"])
def test_a_delta_shortcut_has_one_eigenvalue_of_its_own(name):
    for layer in operators_by_layer(model(name), inputs()):
        found = spectrum(shortcut_matrix(layer))
        assert_close(found.determinant, 1 - layer.beta, rtol=0, atol=1e-4)  # the guard of k makes it shorter than 1
        values = found.singular_values.sort(-1).values
        assert_close(values[..., 1:], torch.ones_like(values[..., 1:]), rtol=0, atol=1e-4)
        assert_close(values.prod(-1), (1 - layer.beta).abs(), rtol=0, atol=1e-4)


@pytest.mark.parametrize("name, orthogonal", [("emhc-cayley", True), ("emhc-exact", True), ("emhc-geodesic", True),
                                              ("emhc-hybrid", False)])
def test_the_rotations_are_isometries_and_the_soft_gate_loses_what_the_theorem_says(name, orthogonal):
    for layer in operators_by_layer(model(name), inputs()):
        smallest = spectrum(shortcut_matrix(layer)).singular_values[..., -1]
        expected = torch.ones_like(smallest) if orthogonal else (2 * layer.gate - 1).abs()
        assert_close(smallest, expected.expand_as(smallest), rtol=0, atol=1e-12)


def test_probes_take_them():
    free, bound = (torch.stack([layer.mix for layer in operators_by_layer(model(name), inputs())]) for name in ("hyper", "mhc"))
    one = torch.ones(2 * LAYERS, dtype=torch.float64)
    assert_close(composite_gain(free).forward, one, rtol=0, atol=1e-12)      # hyper-connections start at the identity
    assert_close(composite_gain(bound).forward, one, rtol=0, atol=1e-12)     # rows of mHC's H sum to one
    assert (stream_consensus(bound)[-1] < 1).all()
    beta = statistics_by_layer([layer.beta for layer in operators_by_layer(model("delta", beta_init=0.5), inputs())], threshold=1)
    assert beta.mean.shape == (2 * LAYERS,) and beta.below.min() > 0.5


def test_an_operator_without_a_matrix_is_refused():
    with pytest.raises(ValueError, match="mix, or direction and beta, got none"):
        shortcut_matrix(operators_by_layer(model("additive"), inputs())[0])
    with pytest.raises(ValueError, match="mix, or direction and beta, got gate, beta"):
        shortcut_matrix(operators_by_layer(model("mgt"), inputs())[0])
