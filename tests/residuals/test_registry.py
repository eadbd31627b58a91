import re
import sys
from pathlib import Path

import pytest
import torch

from geolab.models import ContinuousModel, Transformer, TransformerConfig
from geolab.models.__main__ import is_causal
from geolab.probes import future_influence
from geolab.residuals import REGISTRY, Additive, Delta, Residual, make_residual

SEQUENCE_POOLED = [("benchmark-delta", {"pool": "sequence"}),
                   *((f"emhc-{form}", {"pool": "sequence"}) for form in ("cayley", "hybrid", "geodesic", "exact", "stream"))]


def network(residual, **options):
    torch.manual_seed(0)
    config = TransformerConfig.benchmark(width=16, layers=2, heads=2, max_length=8)
    return ContinuousModel(Transformer(config, residual, **options), 6).double()


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_name_makes_a_residual_of_its_class(name):
    residual = make_residual(name, 8)
    assert type(residual) is REGISTRY[name] and isinstance(residual, Residual) and residual.width == 8


def test_a_class_and_its_options_pass_through():
    assert isinstance(make_residual(Additive, 8), Additive)
    residual = make_residual(Delta, 8, map="v", beta_fixed=2.0)
    assert (residual.map, residual.beta_fixed) == ("v", 2.0)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="^unknown residual 'detla'; known: ") as error:
        make_residual("detla", 8)
    assert all(name in str(error.value) for name in REGISTRY)


def test_an_unknown_option_is_refused():
    with pytest.raises(TypeError, match="gamma"):
        make_residual("delta", 8, gamma=1)


# ---------------------------------------------------------------- the future

@pytest.mark.parametrize("name, options", [*((name, {}) for name in sorted(REGISTRY)), *SEQUENCE_POOLED])
def test_a_residual_reads_the_future_exactly_when_it_is_labelled_so(name, options):
    model = network(name, **options)
    x = torch.randn(2, 7, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    leaks = {layer.residual.leaks for layer in model.trunk.layers}
    assert leaks == {"pool" in options}  # by default none does
    influence = future_influence(model, x)
    assert influence > 1e-12 if options else influence == 0


def test_whatever_can_pool_over_the_sequence_is_listed():
    def takes_pool(name):
        try:
            make_residual(name, 16, pool="sequence")
        except TypeError:
            return False
        return True

    assert {name for name in REGISTRY if takes_pool(name)} == {name for name, _ in SEQUENCE_POOLED}


# ---------------------------------------------------------------- one file, one line

@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_a_residual_is_described_where_it_stands(name):
    residual = REGISTRY[name]
    assert "__doc__" in vars(residual) and len(residual.__doc__) > 20
    assert residual.spectrum
    opening = sys.modules[residual.__module__].__doc__.strip().splitlines()[:5]
    assert any("←" in line for line in opening), f"{residual.__module__} doesn't open with its equation"


def test_what_is_public_in_a_residuals_file_is_registered():
    package = sys.modules["geolab.residuals"]
    named = {value for name in package.__all__ if isinstance(value := getattr(package, name), type)}
    assert {r for r in named if issubclass(r, Residual)} - {Residual} == set(REGISTRY.values())


def test_the_example_of_the_guide_is_a_residual(monkeypatch):
    guide = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    source = re.search(r"```python\n# (geolab/residuals/\w+\.py)\n(.*?)```", guide, re.DOTALL)[2]
    line = re.search(r'with `"(\w+)": (\w+)` in `geolab/residuals/__init__.py`', guide)
    namespace = {}
    exec(source, namespace)
    assert "←" in source.splitlines()[0] and namespace[line[2]].__doc__ and namespace[line[2]].spectrum
    monkeypatch.setitem(REGISTRY, line[1], namespace[line[2]])

    model = network(line[1])
    x = torch.randn(4, 8, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-3), []
    for _ in range(3):
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())
    assert losses[2] < losses[1] < losses[0]
    assert is_causal(lambda config: Transformer(config, line[1]))
