import inspect
import os
import pickle
import pkgutil
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import torch
from shared import shaken

from geolab import residuals
from geolab.models import ContinuousModel, Transformer, TransformerConfig
from geolab.probes import future_influence
from geolab.residuals import REGISTRY, Additive, Delta, Residual, make_residual


def takes(name, **options):
    try:
        make_residual(name, 16, **options)
    except TypeError:
        return False
    return True


SEQUENCE_POOLED = [(name, {"pool": "sequence"}) for name in REGISTRY if takes(name, pool="sequence")]


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


@pytest.mark.parametrize("residual, option, message", [
    ("delta", "gamma", "^residual 'delta' has no option 'gamma'; its options: .*map, .*beta_fixed"),  # those of its base class too
    ("delta", "compress", "^residual 'delta' has no option 'compress'; "),
    ("emhc-cayley", "scalars", "^residual 'emhc-cayley' has no option 'scalars'; its options: (?!.*scalars)"),  # it gives that itself
    ("benchmark-jpmhc", "gamma", "options: streams, retraction"),
    ("additive", "gamma", "^residual 'additive' has no option 'gamma'; its options: none$"),
    (Additive, "gamma", "^residual 'Additive' has no option 'gamma'"),
])
def test_an_unknown_option_is_refused_with_the_residuals_own(residual, option, message):
    with pytest.raises(TypeError, match=message):
        make_residual(residual, 8, **{option: 1})


def test_an_option_of_any_kind_is_told_and_another_error_is_left_alone():
    class Fussy(Additive):
        def __init__(self, width, index=0, count=1, start=1.0, *, end):
            super().__init__(width, index, count)
            self.start = start + end

    assert make_residual(Fussy, 8, index=1, count=3, end=2.0).start == 3.0
    with pytest.raises(TypeError, match="^residual 'Fussy' has no option 'strat'; its options: start, end$"):
        make_residual(Fussy, 8, strat=2.0)
    with pytest.raises(TypeError, match="unsupported operand"):
        make_residual(Fussy, 8, start=None, end=2.0)


# ---------------------------------------------------------------- the future

@pytest.mark.parametrize("name, options", [*((name, {}) for name in sorted(REGISTRY)), *SEQUENCE_POOLED])
def test_a_residual_reads_the_future_exactly_when_it_is_labelled_so(name, options):
    model = network(name, **options)
    x = torch.randn(2, 7, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    leaks = {layer.residual.leaks for layer in model.trunk.layers}
    assert leaks == {"pool" in options}  # by default none does
    influence = future_influence(model, x)
    assert influence > 1e-12 if options else influence == 0


def test_what_is_published_with_a_leak_can_be_asked_for_it():
    assert {"benchmark-delta", "emhc-cayley", "emhc-hybrid", "emhc-stream"} <= {name for name, _ in SEQUENCE_POOLED}


# ---------------------------------------------------------------- one file, one line

@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_a_residual_is_described_where_it_stands(name):
    residual = REGISTRY[name]
    assert "__doc__" in vars(residual) and len(residual.__doc__) > 20
    assert residual.spectrum
    opening = sys.modules[residual.__module__].__doc__.strip().splitlines()[:5]
    assert any("←" in line for line in opening), f"{residual.__module__} doesn't open with its equation"


def test_what_is_public_in_a_residuals_file_is_registered():
    for file in pkgutil.iter_modules(residuals.__path__, "geolab.residuals."):
        module = import_module(file.name)
        made_here = {value for value in vars(module).values() if getattr(value, "__module__", None) == file.name and isinstance(value, type)}
        public = {c for c in made_here if issubclass(c, Residual) and not inspect.isabstract(c) and not c.__name__.startswith("_")}
        assert public <= set(REGISTRY.values()), file.name


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_a_registered_class_is_imported_from_the_package_and_pickled_from_its_file(name):
    residual = REGISTRY[name]
    assert getattr(residuals, residual.__name__) is residual and residual.__name__ in residuals.__all__
    assert pickle.loads(pickle.dumps(residual)) is residual


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_its_gradient_is_the_slope_of_what_it_computes(name):
    """Also through the coefficients that it makes of the state: nothing on the way is detached."""
    model = shaken(network(name))
    generator = torch.Generator().manual_seed(0)
    x, along, weights = torch.randn(3, 2, 8, 6, dtype=torch.float64, generator=generator)

    def value(x):
        return (weights * model(x)).sum()

    slope = (torch.autograd.grad(value(x.requires_grad_()), x)[0] * along).sum()
    with torch.no_grad():
        by_difference = (value(x + 1e-5 * along) - value(x - 1e-5 * along)) / 2e-5
    assert slope.item() == pytest.approx(by_difference.item(), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_training_lowers_the_loss_and_reaches_every_parameter(name):
    model = network(name)
    x = torch.randn(4, 8, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-3), []
    reached = dict.fromkeys(dict(model.named_parameters()), False)
    for _ in range(3):  # a scale of what starts at zero is reached at the second step
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        reached |= {part: True for part, p in model.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0}
    assert losses[2] < losses[1] < losses[0]
    assert all(reached.values()), [part for part, was in reached.items() if not was]


def test_the_guide_adds_a_residual_with_one_file_and_one_line(tmp_path):
    """In a copy of the package, and with every test that goes over the registry: those of the new name, and those of no name."""
    root = Path(__file__).parents[2]
    for part in ("geolab", "tests", "tools"):
        shutil.copytree(root / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "pyproject.toml", tmp_path)

    guide = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    file, source = re.search(r"```python\n# (geolab/residuals/\w+\.py)\n(.*?)```", guide, re.DOTALL).groups()
    line, name = re.search(r'with `("(\w+)": "\w+:\w+",)` in `geolab/residuals/__init__.py`', guide).groups()
    (tmp_path / file).write_text(source, encoding="utf-8")
    registry = tmp_path / "geolab/residuals/__init__.py"
    before, end, after = registry.read_text(encoding="utf-8").partition("}.items()}\n")
    registry.write_text(f"{before}    {line}\n{end}{after}", encoding="utf-8")

    tests = [path for path in sorted((tmp_path / "tests").rglob("test_*.py")) if "REGISTRY" in path.read_text(encoding="utf-8")]
    chosen = f"{name} or not (guide or {' or '.join(REGISTRY)})"
    run = subprocess.run([sys.executable, "-m", "pytest", "-v", "-k", chosen, *tests], cwd=tmp_path, capture_output=True, text=True,
                         env=os.environ | {"PYTHONPATH": str(tmp_path)}, timeout=900)
    assert run.returncode == 0, run.stdout[-3000:]
    passed = re.findall(rf"^tests/(\S+)\.py::.*\b{name}\b.* PASSED", run.stdout, re.MULTILINE)
    assert {"residuals/test_registry", "residuals/test_autocast", "models/test_backbone", "models/test_inspect"} <= set(passed)
