"""Laws of all residuals: what each must do, in every form, whatever its equation is."""

import inspect
import itertools
import pickle
import pkgutil
from importlib import import_module

import pytest
import torch
from shared import ANYWHERE, CLOSE, FORMS, normal, shaken, stack
from torch import nn
from torch.testing import assert_close

from geolab import residuals
from geolab.models import ContinuousModel, Transformer, TransformerConfig
from geolab.probes import future_influence
from geolab.residuals import REGISTRY, Normed, Residual, Views, make_residual
from geolab.residuals.base import options_of
from geolab.residuals.delta import VALUES
from geolab.residuals.delta_matrix import COMPRESSORS, EXPANSIONS

every_residual = pytest.mark.parametrize("name", sorted(REGISTRY))

POOLED = [name for name, residual in REGISTRY.items() if "pool" in options_of(residual)]
SPLIT = [name for name, residual in REGISTRY.items() if "ends" in options_of(residual)]
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
    "hyper": [{"tanh": False}], "jpmhc": [{"retraction": "exact"}],
    "mhc": [{"eps": 1e-2, "write_eps": 1e-2, "norm_eps": 1e-2, "readout": "learned"}],
}
ALL = [*FORMS, *((name, options) for name, forms in _MORE.items() for options in forms),
       *((name, {"pool": pool}) for name in POOLED for pool in ("token", "sequence")
         if (name, {"pool": pool}) not in FORMS)]
every_form = pytest.mark.parametrize("name, options", ALL)
LOOKING_BACK = ["attnres", "denseformer", "muddformer"]


def plain(x, values=None):
    """A sublayer that takes all that attention takes."""
    if isinstance(x, Views):
        return x.q.sin() + 2 * x.k - x.v
    return x.sin() if values is None else x.sin() + values(x)


def network(residual, make=TransformerConfig.benchmark, **options):
    torch.manual_seed(0)
    config = make(width=16, layers=2, heads=2, max_length=8)
    return ContinuousModel(Transformer(config, residual, **options), 6).double()


def test_what_is_public_in_a_residuals_file_is_registered_with_its_spectrum():
    for file in pkgutil.iter_modules(residuals.__path__, "geolab.residuals."):
        made_here = {value for value in vars(import_module(file.name)).values()
                     if isinstance(value, type) and value.__module__ == file.name}
        public = {c for c in made_here if issubclass(c, Residual) and not inspect.isabstract(c)
                  and not c.__name__.startswith("_")}
        assert public <= set(REGISTRY.values()), file.name
    assert all(residual.spectrum for residual in REGISTRY.values())


# ---------------------------------------------------------------- what it computes

@pytest.mark.parametrize("name, options", [form for form in ALL
                                           if form[0] in ("hyper", "mhc", "jpmhc", *LOOKING_BACK)])
def test_a_step_over_streams_is_that_of_its_coefficients(name, options):
    """X ← H X + b ⊗ F(aᵀX), though it may not be computed by these products."""
    made = shaken(stack(name, 16, 4, **options).double())
    state = made[0].expand(normal(2, 3, made[0].outer))
    state = state + normal(*state.shape, seed=1)

    def f(u):
        q, k, v = u if isinstance(u, tuple) else (u, u, u)
        return (q + 2 * k + 3 * v).sin()

    for residual in made:
        read, write, mix = residual.coefficients(state)
        u = read @ state if read.ndim == state.ndim else (read.unsqueeze(-2) @ state).squeeze(-2)
        update = f(Views(*u.unbind(-2)) if read.ndim == state.ndim else u)
        wanted = mix @ state + write.unsqueeze(-1) * update.unsqueeze(-2)
        state = residual(state, Normed(f, takes_views=True))
        assert_close(state, wanted, **CLOSE)


@pytest.mark.parametrize("name", SPLIT)
def test_a_split_state_is_all_that_the_trunk_holds(name):
    split, copied = (make_residual(name, 16, ends=ends).double() for ends in ("split", "copied"))
    copied.load_state_dict(shaken(split).state_dict())
    x = normal(2, 5, 4 * 16)
    state = split.expand(x)
    assert split.outer == 4 * 16 and torch.equal(state, x.unflatten(-1, (4, 16)))
    assert copied.outer == 16 and torch.equal(split.reduce(state), x)
    assert torch.equal(split(state, torch.tanh), copied(state, torch.tanh))


@pytest.mark.parametrize("name, make", [
    *((name, TransformerConfig.benchmark) for name in ANYWHERE),
    *((name, TransformerConfig.ddl) for name in ("emhc-cayley", "emhc-hybrid"))])
def test_a_step_is_the_same_around_the_backbone_s_sublayer_and_around_a_plain_one(name, make):
    """The backbone folds maps between norm and F into F's matrices; a plain F can't."""
    trunk = shaken(network(name, make)).trunk
    state = trunk.layers[0].residual.expand(normal(2, 7, 16))
    for layer in trunk.layers:
        plain = Normed(lambda x, f=layer.mix: f(x), layer.norm)
        ours = layer.residual(state, layer.sublayer)
        assert_close(ours, layer.residual(state, plain), **CLOSE)
        state = ours


@every_form
@torch.no_grad()
def test_a_sequence_gives_the_same_beside_others_and_however_it_lies_in_memory(name, options):
    made = shaken(stack(name, 16, 3, **options).double())

    def result(x):
        state = made[0].expand(x)
        for residual in made:
            state = residual(state, Normed(plain, torch.tanh, takes_views=True, takes_values=True))
        return made[-1].reduce(state)

    x = normal(3, 5, made[0].outer)
    whole = result(x)
    assert_close(torch.cat([result(x[k:k + 1]) for k in range(3)]), whole, **CLOSE)
    for same in (x.mT.contiguous().mT, x.transpose(0, 1).contiguous().transpose(0, 1),
                 torch.cat([x, x], -1)[..., :made[0].outer], x.repeat(1, 2, 1)[:, :5]):
        assert_close(result(same), whole, **CLOSE)
    shared = x[1].expand_as(x)
    assert_close(result(shared), whole[1].expand_as(x), **CLOSE)
    bad = x.index_fill(0, torch.tensor(1), torch.nan)
    found = result(bad)
    assert_close(found[::2], whole[::2], **CLOSE)
    assert not found[1].isfinite().all()
    assert result(x[:0]).shape == x[:0].shape and result(x[:, :0]).shape == x[:, :0].shape


# ---------------------------------------------------------------- the future, slopes and training

@every_form
def test_a_residual_reads_the_future_exactly_when_it_is_labelled_so(name, options):
    model, leaks = shaken(network(name, **options)), options.get("pool") == "sequence"
    assert {layer.residual.leaks for layer in model.trunk.layers} == {leaks}
    influence = future_influence(model, normal(2, 7, 6))
    assert influence > 1e-12 if leaks else influence == 0


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


class Wrapped(nn.Module):
    """What an adapter makes of a part: a module that can only be called with x."""

    def __init__(self, base):
        super().__init__()
        self.base = base

    def forward(self, x):
        return self.base(x)


@every_form
def test_a_linear_map_or_a_norm_may_be_wrapped(name, options):
    model, x = shaken(network(name, **options)), normal(2, 5, 6)
    wanted = model(x)
    for part in [part for one in model.modules() if isinstance(one, Residual)
                 for part in one.modules()]:
        for key, child in part.named_children():
            if isinstance(child, (nn.Linear, nn.LayerNorm, nn.RMSNorm)):
                setattr(part, key, Wrapped(child))
    assert_close(model(x), wanted)


@pytest.mark.parametrize("name, options", FORMS)
def test_a_joined_step_leaves_no_memory_of_its_parameters(name, options):
    """A sharded layer frees them behind its step, and the next layer writes the state."""
    def held(state):
        return [state] if isinstance(state, torch.Tensor) else [
            tensor for part in state or () for tensor in held(part)]

    made = stack(name, **options)
    state = made[0].expand(normal(1, 4, 16))
    for residual in (one for one in made if one.joins):
        state = residual.step(state, Normed(torch.tanh))
        own = {p.untyped_storage().data_ptr() for p in residual.parameters()}
        assert own.isdisjoint(tensor.untyped_storage().data_ptr() for tensor in held(state))


@every_residual
def test_every_parameter_of_a_residual_acts_around_a_plain_function(name):
    """Nothing waits for a sublayer of the backbone: the residual computes its whole equation."""
    residual = shaken(make_residual(name, 16, index=1, count=3).double(), 0.1)
    state = make_residual(name, 16, count=3).double().expand(normal(2, 7, 16)).detach()
    state = (state + normal(*state.shape, seed=1)).requires_grad_()
    F, weights = normal(16, 16, seed=2), normal(*state.shape, seed=3)
    (weights * residual(state, lambda x: (x @ F).tanh())).sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in residual.parameters())
