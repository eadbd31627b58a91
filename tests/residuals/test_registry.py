import inspect
import itertools
import pickle
import pkgutil
import sys
from importlib import import_module

import pytest
import torch
from shared import ANYWHERE, CLOSE, FORMS, normal, shaken
from torch.testing import assert_close

from geolab import residuals
from geolab.models import ContinuousModel, Transformer, TransformerConfig
from geolab.probes import future_influence
from geolab.residuals import REGISTRY, Additive, Normed, Residual, make_residual
from geolab.residuals.delta import VALUES
from geolab.residuals.delta_matrix import COMPRESSORS, EXPANSIONS

every_residual = pytest.mark.parametrize("name", sorted(REGISTRY))


def takes(name, **options):
    try:
        make_residual(name, 16, **options)
    except TypeError:
        return False
    return True


SEQUENCE_POOLED = [(name, {"pool": "sequence"}) for name in REGISTRY
                   if takes(name, pool="sequence")]
# options beside those of FORMS, in which an equation has another term
_DELTA = [{"map": map, "value": value, "gate": gate} for (map, value), gate in itertools.product(
    [*(("k", value) for value in VALUES), ("v", "sigmoid4"), ("v", "linear")], ("linear", "mlp"))]
_MATRIX = [{"compress": compress, "expand": expand}
           for compress, expand in itertools.product(COMPRESSORS, EXPANSIONS)]
_MORE = {
    "delta": [*_DELTA, {"erase": False}, {"context": "sublayer"}],
    "delta-matrix": [
        *_MATRIX, {"erase": False}, {"beta_fixed": 1.0}, {"context": "sublayer", "tied": True},
        {"erase": False, "normalize": False, "beta_fixed": 1.0}, {"channels": 3, "kernel": 2},
        {"compress": "channel", "expand": "conv", "map": "v", "gate": "mlp"},
        *({"map": "v", "value": "linear", "direction_reads": how, "beta_reads": how,
           "expand": "conv"}
          for how in ("mean", "flatten", "attention"))],
    "attnres": [{"queries": 3}], "muddformer": [{"ways": 4}],
    "value-residual": [{}, {"learned": False}],
    "emhc-hybrid": [{"gate": "hard"}], "emhc-stream": [{"gate": "hard"}, {"router_reads": "mixed"}],
    "hyper": [{"tanh": False}], "jpmhc": [{"retraction": "exact"}], "mgt": [
        {"gate": False, "erase": False}],
    "mhc": [{"eps": 1e-2, "write_eps": 1e-2, "norm_eps": 1e-2, "readout": "learned"}],
}
ALL = [*FORMS, *((name, options) for name, forms in _MORE.items() for options in forms),
       *((name, {"pool": "token"}) for name, _ in SEQUENCE_POOLED), *SEQUENCE_POOLED]
every_form = pytest.mark.parametrize("name, options", ALL)


def network(residual, **options):
    torch.manual_seed(0)
    config = TransformerConfig.benchmark(width=16, layers=2, heads=2, max_length=8)
    return ContinuousModel(Transformer(config, residual, **options), 6).double()


def test_it_keeps_its_options_for_checkpoints_and_for_a_reader_who_prints_the_model():
    residual = make_residual("mhc", 8, without=("read",), iterations=5)
    assert residual.options == {"iterations": 5, "without": ("read",)}
    assert "iterations=5, without=('read',)" in repr(residual)
    assert make_residual("mhc", 8).options == {}


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="^unknown residual 'detla'; known: ") as error:
        make_residual("detla", 8)
    assert all(name in str(error.value) for name in REGISTRY)


@pytest.mark.parametrize("residual, option, message", [
    # those of its base class too
    ("delta", "gamma", "^residual 'delta' has no option 'gamma'; its options: .*map, .*beta_fixed"),
    ("delta", "compress", "^residual 'delta' has no option 'compress'; "),
    # what it gives its base class itself is no option
    ("delta", "channels", "^residual 'delta' has no option 'channels'; "),
    ("emhc-cayley", "sizes", "has no option 'sizes'; its options: (?!.*sizes)"),
    ("benchmark-jpmhc", "gamma", "options: streams, mix, retraction"),
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
    with pytest.raises(TypeError,
                       match="^residual 'Fussy' has no option 'strat'; its options: start, end$"):
        make_residual(Fussy, 8, strat=2.0)
    with pytest.raises(TypeError, match="unsupported operand"):
        make_residual(Fussy, 8, start=None, end=2.0)


@pytest.mark.parametrize("name", [name for name in REGISTRY if takes(name, ends="split")])
def test_a_split_state_is_all_that_the_trunk_holds(name):
    split, copied = (make_residual(name, 16, ends=ends).double() for ends in ("split", "copied"))
    copied.load_state_dict(shaken(split).state_dict())
    x = normal(2, 5, 4 * 16)
    state = split.expand(x)
    assert split.outer == 4 * 16 and torch.equal(state, x.unflatten(-1, (4, 16)))
    assert copied.outer == 16 and torch.equal(split.reduce(state), x)
    assert torch.equal(split(state, torch.tanh), copied(state, torch.tanh))


# ---------------------------------------------------------------- the future

@every_form
def test_a_residual_reads_the_future_exactly_when_it_is_labelled_so(name, options):
    model, leaks = shaken(network(name, **options)), options.get("pool") == "sequence"
    assert {layer.residual.leaks for layer in model.trunk.layers} == {leaks}
    influence = future_influence(model, normal(2, 7, 6))
    assert influence > 1e-12 if leaks else influence == 0


def test_what_is_published_with_a_leak_can_be_asked_for_it():
    published = {"benchmark-delta", "emhc-cayley", "emhc-hybrid", "emhc-stream"}
    assert published <= {name for name, _ in SEQUENCE_POOLED}


# ---------------------------------------------------------------- one file, one import, one line

@every_residual
def test_a_residual_is_described_where_it_stands(name):
    residual = REGISTRY[name]
    assert "__doc__" in vars(residual) and len(residual.__doc__) > 20
    assert residual.spectrum
    opening = sys.modules[residual.__module__].__doc__.strip().splitlines()[:5]
    assert any("←" in line for line in opening), residual.__module__


def test_what_is_public_in_a_residuals_file_is_registered():
    for file in pkgutil.iter_modules(residuals.__path__, "geolab.residuals."):
        module = import_module(file.name)
        made_here = {value for value in vars(module).values() if getattr(value, "__module__", None)
                     == file.name and isinstance(value, type)}
        public = {c for c in made_here if issubclass(c, Residual) and not inspect.isabstract(c)
                  and not c.__name__.startswith("_")}
        assert public <= set(REGISTRY.values()), file.name


@pytest.mark.parametrize("name, options", [form for form in ALL if form[1].get("gate") != "hard"])
def test_its_gradient_is_the_slope_of_what_it_computes(name, options):
    """Also through the coefficients that it makes of the state: nothing on the way is detached."""
    model = shaken(network(name, **options))
    x, along, weights = normal(3, 2, 8, 6)

    def value(x):
        return (weights * model(x)).sum()

    slope = (torch.autograd.grad(value(x.requires_grad_()), x)[0] * along).sum()
    with torch.no_grad():
        by_difference = (value(x + 1e-5 * along) - value(x - 1e-5 * along)) / 2e-5
    assert slope.item() == pytest.approx(by_difference.item(), rel=1e-5, abs=1e-7)


@every_form
def test_training_lowers_the_loss_reaches_every_parameter_and_leaves_nothing_behind(name, options):
    model, x = network(name, **options), normal(4, 8, 6)
    before = pickle.dumps(model)
    model(x)
    assert pickle.dumps(model) == before
    assert set(model.state_dict()) == {n for n, _ in model.named_parameters(remove_duplicate=False)}
    optimizer, losses = torch.optim.AdamW(model.parameters(), lr=1e-3), []
    reached = []
    for _ in range(3):
        loss = (model(x) - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        reached.append({part for part, p in model.named_parameters() if p.grad is not None
                        and p.grad.abs().max() > 0})
    assert losses[2] < losses[1] < losses[0]
    every = {part for part, _ in model.named_parameters()}
    if options.get("expand") != "conv":  # the first pool reads equal columns
        every.discard("trunk.layers.0.residual.direction_pool.query")
    # what multiplies numbers that are 0 at the start learns from the second step on
    assert reached[1] | reached[2] == every


@pytest.mark.parametrize("name", ANYWHERE)
def test_a_step_is_the_same_around_the_backbone_s_sublayer_and_around_a_plain_one(name):
    """The backbone folds maps between norm and F into F's matrices; a plain F can't."""
    trunk = shaken(network(name)).trunk
    state = trunk.layers[0].residual.expand(normal(2, 7, 16))
    for layer in trunk.layers:
        plain = Normed(lambda x, f=layer.mix: f(x), layer.norm)
        ours = layer.residual(state, layer.sublayer)
        assert_close(ours, layer.residual(state, plain), **CLOSE)
        state = ours


@every_residual
def test_every_parameter_of_a_residual_acts_around_a_plain_function(name):
    """Nothing waits for a sublayer of the backbone: the residual computes its whole equation."""
    residual = shaken(make_residual(name, 16, index=1, count=3).double(), 0.1)
    state = make_residual(name, 16, count=3).double().expand(normal(2, 7, 16)).detach()
    state = (state + normal(*state.shape, seed=1)).requires_grad_()
    F, weights = normal(16, 16, seed=2), normal(*state.shape, seed=3)
    (weights * residual(state, lambda x: (x @ F).tanh())).sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in residual.parameters())


@every_residual
def test_a_state_keeps_its_dtype_under_autocast_and_a_step_of_training_is_finite(name):
    trunk, x = network(name).float().trunk, normal(3, 7, 16, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        state = trunk.layers[0].residual.expand(x)
        for layer in trunk.layers:
            state = layer(state)
            assert state.dtype == torch.float32
        output = trunk(x)
        loss = output.float().square().mean()
    loss.backward()
    assert all(p.grad.isfinite().all() for p in trunk.parameters())
    assert_close(output.float(), trunk(x), rtol=0, atol=0.1)
