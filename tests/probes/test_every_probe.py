"""Every public probe measures every registered residual."""

import inspect
from importlib.util import find_spec

import pytest
import torch
from shared import shaken
from torch.utils._pytree import tree_leaves

from geolab import probes
from geolab.models import ContinuousModel, Transformer, TransformerConfig
from geolab.probes import operators_by_layer, shortcut_matrix, states
from geolab.residuals import REGISTRY


def last_state(model, x):
    return states(model.trunk, model.trunk.layers, model.read(x))[-1].flatten(2)  # (B, T, m)


def matrices(model, x):
    """(layers, B or 1, T or 1, m, m)."""
    found = [shortcut_matrix(layer) for layer in operators_by_layer(model, x)]
    assert all(matrix.ndim == 4 and matrix.shape[-1] == matrix.shape[-2] for matrix in found)
    return torch.stack(found)


def twice(x):
    return 2 * x


LABELS = torch.arange(14) % 3
CASES = {  # each public probe at a model (B, T, 5) -> (B, T, 5) and an input of it
    "asymmetry": lambda m, x: probes.asymmetry(m, twice, x),
    "between_writes": lambda m, x: probes.between_writes([x, m(x) - x]).cosine[1, 0],
    "cech_residual": lambda m, x: probes.cech_residual(last_state(m, x), window=3, stride=1),
    "commutator": lambda m, x: probes.commutator(m, twice, x),
    "commutator_energy": lambda m, x: probes.commutator_energy(m, twice, x),
    "commutator_factors": lambda m, x: probes.commutator_factors(m, twice, x),
    "composite_gain": lambda m, x: probes.composite_gain(matrices(m, x)),
    "delta_rate": lambda m, x: probes.delta_rate(x, m(x) - x),
    "depth_weights": probes.depth_weights,
    "dirichlet_energy": lambda m, x: probes.dirichlet_energy(last_state(m, x)),
    "effective_rank": lambda m, x: probes.effective_rank(last_state(m, x)),
    "future_influence": probes.future_influence,
    "gradient_norms": lambda m, x: probes.gradient_norms(m(x).sum(), [m.read.weight]),
    "influence": probes.influence,
    "jacobian": lambda m, x: probes.jacobian(m, x[:1, :2]),
    "jacobian_commutator": lambda m, x: probes.jacobian_commutator(m, twice, x),
    "linear_commutator": lambda m, x: probes.linear_commutator(m, twice, x),
    "linear_readout": lambda m, x: probes.linear_readout(last_state(m, x).flatten(0, 1), LABELS),
    "norm_by_depth": lambda m, x: probes.norm_by_depth(states(m, m.trunk.layers, x)),
    "norm_drift": lambda m, x: probes.norm_drift(m, 5, length=7, sequences=2),
    "operators_by_layer": lambda m, x: [tuple(layer) for layer in operators_by_layer(m, x)],
    "order_sensitivity": lambda m, x: probes.order_sensitivity({"m": m, "twice": twice}, x),
    "pairwise": lambda m, x: probes.pairwise({"m": m, "twice": twice}, x),
    "persistence": lambda m, x: probes.persistence(last_state(m, x).flatten(0, 1)),
    "share_along": lambda m, x: probes.share_along(x, m(x) - x),
    "shortcut_matrix": matrices,
    "spectrum": lambda m, x: probes.spectrum(matrices(m, x)),
    "states": lambda m, x: probes.states(m, m.trunk.layers, x),
    "statistics_by_layer": lambda m, x: probes.statistics_by_layer(matrices(m, x), threshold=0),
    "stream_consensus": lambda m, x: probes.stream_consensus(matrices(m, x)),
    "stream_usage": probes.stream_usage,
    "token_jacobian": lambda m, x: probes.token_jacobian(m, x[:1], 3),
    "total_persistence": lambda m, x: probes.total_persistence(
        probes.persistence(last_state(m, x).flatten(0, 1))),
}
OPTIONAL = () if find_spec("gudhi") else ("persistence", "total_persistence")


def test_every_public_probe_has_a_case():
    functions = {name for name in probes.__all__ if inspect.isfunction(getattr(probes, name))}
    assert set(CASES) == functions


def small_model(name):
    """A small network with a residual, and an input of it."""
    torch.manual_seed(0)
    config = TransformerConfig.benchmark(width=16, layers=2, heads=2, max_length=8)
    # a residual may start where it reads nothing, and some measures are ratios
    model = shaken(ContinuousModel(Transformer(config, name), 5), size=0.1)
    return model, torch.randn(2, 7, 5, generator=torch.Generator().manual_seed(1))


def residuals(model):
    return [module for module in model.modules() if hasattr(module, "observe")]


def state_shape(model):
    """The axes of a state behind batch and positions, and D."""
    first = residuals(model)[0]
    return tree_leaves(first.expand(torch.zeros(1, 1, first.width)))[0].shape[2:], first.width


def weighs_features(model, x):
    """Whether each step multiplies each feature of a sublayer by itself, and adds no constant."""
    shape, width = state_shape(model)
    if residuals(model)[0].needs_values:
        return True  # the values stand beside a plain stream
    if shape[-1] != width:
        return False
    empty = residuals(model)[0].expand(torch.zeros(1, 1, width))
    if any(leaf.any() for residual in residuals(model)
           for leaf in tree_leaves(residual(empty, torch.zeros_like))[:1]):
        return False
    every = [matrix.contiguous() for layer in operators_by_layer(model, x)
             for matrix in shortcut_matrix(layer).float().flatten(0, 1)]
    size, apart = shape.numel(), 1 - torch.eye(width)
    blocks = torch.stack([torch.kron(matrix, torch.eye(size // len(matrix))) for matrix in every])
    blocks = blocks.view(-1, size // width, width, size // width, width)
    return bool((blocks * apart[:, None]).abs().max() < 1e-5)


def refuses(probe, model, x):
    """Whether a probe must refuse the model's residual."""
    if probe == "stream_usage" and len(state_shape(model)[0]) != 2:
        return True
    return probe in ("depth_weights", "stream_usage") and not weighs_features(model, x)


def require_measured(name, model, x):
    """Every probe gives finite numbers, or refuses the residual by its name."""
    for probe, measure in CASES.items():
        if probe in OPTIONAL:
            continue
        if refuses(probe, model, x):
            with pytest.raises(ValueError, match=rf"\b{REGISTRY[name].__name__}\b"):
                measure(model, x)
            continue
        numbers = [part for part in tree_leaves(measure(model, x))
                   if isinstance(part, (torch.Tensor, float))]
        assert all(torch.as_tensor(number).isfinite().all() for number in numbers), probe


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_probe_measures_a_model_with_this_residual(name):
    require_measured(name, *small_model(name))
