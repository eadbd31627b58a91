"""Laws of all residuals' weights: how they start, what decays, in which dtype they learn and stay
right, and where they are read.
"""

import copy
from functools import partial

import pytest
import torch
from shared import FORMS, normal, shaken, stack, through
from torch import nn
from torch.testing import assert_close

from geolab.models import (
    ContinuousModel,
    GeometricConfig,
    GeometricTransformer,
    PointModel,
    TokenModel,
    Transformer,
)
from geolab.models import TransformerConfig as Config
from geolab.residuals import REGISTRY, Additive, Cayley, decaying
from geolab.tasks import RandomTokens
from geolab.training import Budget, fit
from studies.engine.decay import every_matrix_decays

every_form = pytest.mark.parametrize("name, options", FORMS)
LEARNERS = [(name, options) for name, options in FORMS if [*stack(name, **options).parameters()]]
HALVES = (torch.bfloat16, torch.float16)


# ---------------------------------------------------------------- how they start

def of_seed(seed, make):
    torch.manual_seed(seed)
    return make().state_dict()


def on_meta(make):
    """Made on the meta device, then memory that nobody has set."""
    with torch.device("meta"):
        late = make()
    late.to_empty(device="cpu")
    for tensor in late.state_dict().values():
        tensor.fill_(torch.nan)
    return late


def residuals_alone(late):
    for part in late:
        part.reset_parameters()


def every_module(late):
    """As FSDP and others do it: module by module, outer ones first."""
    for module in late.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()


def require_same_start(late, make):
    """What no seed changes is as in the constructor; the rest is drawn, with the same spread."""
    one, two, got = of_seed(0, make), of_seed(1, make), late.state_dict()
    assert got.keys() == one.keys()
    for key, value in got.items():
        fixed = one[key] == two[key]
        assert torch.equal(value[fixed], one[key][fixed]), key
        drawn = value[~fixed]
        assert drawn.isfinite().all(), key
        assert fixed.all() or not torch.equal(drawn, one[key][~fixed]), key
        if len(drawn) >= 64:
            assert drawn.std() == pytest.approx(one[key][~fixed].std().item(), rel=0.5), key


@every_form
@pytest.mark.parametrize("start", [residuals_alone, every_module])
def test_what_is_made_on_the_meta_device_starts_as_in_the_constructor(name, options, start):
    make = partial(stack, name, **options)
    late = on_meta(make)
    torch.manual_seed(2)
    start(late)
    require_same_start(late, make)


def models():
    config = Config.benchmark(width=16, layers=1, heads=2, hidden=24, max_length=4)
    geometric = GeometricConfig(width=16, heads=2, hidden=24, layers=1, positions="learned",
                                max_length=4)
    return nn.ModuleList([
        TokenModel(Transformer(config, "mhc"), 9), TokenModel(Transformer(config), 9, tied=False),
        ContinuousModel(Transformer(Config(width=16, layers=1, heads=2), "delta"), 3),
        *(PointModel(GeometricTransformer(geometric, kind), 3, 3) for kind in ("full", "lite"))])


def test_so_do_the_models():
    late = on_meta(models)
    torch.manual_seed(2)
    late.apply(lambda module: getattr(  # nn.MultiheadAttention hides its own
        module, "reset_parameters", getattr(module, "_reset_parameters", int))())
    require_same_start(late, models)


class Kept(Additive):
    def __init__(self, width, index=0, count=1):
        super().__init__(width, index, count)
        self.scale = nn.Parameter(torch.ones(width))


class Buffered(Additive):
    def __init__(self, width, index=0, count=1):
        super().__init__(width, index, count)
        self.register_buffer("table", torch.ones(width))


class Inside(Additive):
    def __init__(self, width, index=0, count=1):
        super().__init__(width, index, count)
        self.part = nn.ParameterList([nn.Parameter(torch.ones(width))])


@pytest.mark.parametrize("residual, message", [
    (Kept, "^Kept must define start_own.* which sets scale: "),
    (Buffered, "^Buffered must define start_own.* which sets table: "),
    (Inside, "^ParameterList must define reset_parameters.* which sets 0: ")])
def test_a_residual_that_does_not_say_how_it_starts_is_refused(residual, message):
    with pytest.raises(TypeError, match=message):
        residual(8).reset_parameters()


def test_what_torch_offers_starts_as_it_does_there():
    class Attends(Additive):
        def __init__(self, width, index=0, count=1):
            super().__init__(width, index, count)
            self.read = nn.MultiheadAttention(width, 2)

    late = on_meta(partial(stack, Attends))
    torch.manual_seed(2)
    residuals_alone(late)
    require_same_start(late, partial(stack, Attends))


@pytest.mark.parametrize("dtype", HALVES)
@every_form
def test_a_narrow_default_dtype_changes_nothing(name, options, dtype):
    whole = of_seed(0, partial(stack, name, **options))
    torch.set_default_dtype(dtype)
    try:
        half = of_seed(0, partial(stack, name, **options))
        assert Cayley(16).generator[-1].bias.dtype == dtype  # made by hand: as the user says
        assert torch.get_default_dtype() == dtype
    finally:
        torch.set_default_dtype(torch.float32)
    for key, value in whole.items():
        assert half[key].dtype == torch.float32 and torch.equal(half[key], value), key


@every_form
def test_a_copy_starts_decays_and_computes_alike(name, options):
    made = stack(name, **options)
    again = copy.deepcopy(made)
    assert decaying(again) == decaying(made)
    for part in (made, again):
        torch.manual_seed(3)
        residuals_alone(part)
    for key, value in made.state_dict().items():
        assert torch.equal(again.state_dict()[key], value), key


# ---------------------------------------------------------------- what decays

TABLES = ("kernel", "expander.weight", "entry.weight", "exit.weight", "norm.weight",
          "static.weight")


@every_form
def test_what_decays_is_a_matrix_that_multiplies_features(name, options):
    made = stack(name, **options)
    matrices = {key for key, p in made.named_parameters() if p.ndim >= 2}
    assert decaying(made) == {key for key in matrices if not key.endswith(TABLES)}


def test_outside_of_residuals_all_that_has_two_axes_decays_and_a_residual_of_one_s_own_says_what():
    class Own(Additive):
        decayed = ("map",)

        def __init__(self, width, index=0, count=1):
            super().__init__(width, index, count)
            self.map, self.table = (nn.Parameter(torch.ones(width, width)) for _ in range(2))
            self.inner = nn.Linear(width, width)

    model = TokenModel(Transformer(Config.benchmark(width=16, layers=1, heads=2), Own), 9)
    names = decaying(model)
    layer = "trunk.layers.0."
    assert {"embedding.weight", "trunk.position", f"{layer}mix.qkv.weight"} <= names
    assert {f"{layer}residual.map", f"{layer}residual.inner.weight"} <= names
    assert f"{layer}residual.table" not in names and f"{layer}norm.weight" not in names


class Still(RandomTokens):
    """A loss that no weight moves, so that decay alone does."""

    def loss(self, prediction, target):
        return 0 * prediction.sum()


def shrunk(model):
    """The names of the parameters that become shorter in two steps."""
    before = {key: p.detach().clone() for key, p in model.named_parameters()}
    fit(model, Still(length=4, vocabulary=8, train=8, validation=2),
        Budget(steps=2, batch=2, warmup=0, lr=0.1), progress=False)
    ratio = {key: p.norm() / before[key].norm() for key, p in model.named_parameters()}
    assert all(r < 0.999 or r == 1 or r.isnan() for r in ratio.values())
    return {key for key, r in ratio.items() if r < 0.999}


@pytest.mark.parametrize("name, options", [
    ("jpmhc", {}), ("delta-matrix", {"expand": "conv"}), ("emhc-hybrid", {"penalty": 0.0})])
def test_fit_shrinks_what_decays_and_a_study_may_shrink_all_matrices(name, options):
    def model():
        torch.manual_seed(0)
        return TokenModel(Transformer(Config(width=16, layers=1, heads=2), name, **options), 8)

    one = model()
    matrices = {key for key, p in one.named_parameters() if p.ndim >= 2 and p.any()}
    wanted = {key for key in decaying(one) if one.get_parameter(key).any()}
    assert shrunk(one) == wanted
    assert shrunk(every_matrix_decays(model())) == matrices


# ---------------------------------------------------------------- in which dtype they learn

@pytest.mark.parametrize("name, options, dtype", [
    *((*form, torch.bfloat16) for form in LEARNERS),
    *((*form, torch.float16) for form in LEARNERS if not form[1])])
def test_a_half_state_keeps_its_dtype_beside_weights_of_float32(name, options, dtype):
    made = shaken(stack(name, **options), 0.05)
    x, seen = normal(2, 5, 16, dtype=dtype), []

    def sublayer(x):
        seen.append(x.dtype)
        return x.tanh()

    y = through(made, x, sublayer)
    assert y.dtype == dtype and set(seen) == {dtype}
    assert_close(y.float(), through(made, x.float()), rtol=0.1, atol=0.1)
    y.float().square().mean().backward()
    assert all(p.grad.dtype == torch.float32 and p.grad.isfinite().all()
               for p in made.parameters() if p.grad is not None)


@pytest.mark.parametrize("name, options", LEARNERS)
def test_weights_that_learn_beside_a_float32_state_learn_beside_a_half_one(name, options):
    """All that move; a gradient that is rounding error alone may be 0 in another dtype."""
    moved = []
    for dtype in (torch.float32, torch.bfloat16):
        torch.manual_seed(0)
        made = stack(name, **options)
        before = {key: p.detach().clone() for key, p in made.named_parameters()}
        learns = dict.fromkeys(before, False)
        optimizer = torch.optim.AdamW(made.parameters(), lr=3e-4, weight_decay=0.0)
        x, target = normal(4, 6, 16, dtype=dtype), normal(6, 16, dtype=torch.float32)
        for _ in range(2):  # what multiplies zeros learns from the second step on
            optimizer.zero_grad()
            (through(made, x, lambda x: 2 * x.sin()).float() - target).square().mean().backward()
            optimizer.step()
            for key, p in made.named_parameters():
                if p.grad is not None:
                    learns[key] |= p.grad.abs() > 1e-3 * p.grad.abs().max()
        moved.append({key: p != before[key] for key, p in made.named_parameters()})
        if dtype == torch.float32:
            wanted = {key: moved[0][key] & learns[key] for key in before}
    for key, entries in wanted.items():
        assert (moved[1][key] | ~entries).all(), key
    assert any(entries.any() for entries in wanted.values())


# their norm is PyTorch's, which gives 0 where float32 can't hold a square
OF_PYTORCH = {"delta", "delta-matrix", "delta-product", "emhc-mixer"}


def at_scale(made, scale, dtype):
    """A network's output around sublayers with a constant output: no norm but the residuals'."""
    first, second = torch.Generator().manual_seed(0), torch.Generator().manual_seed(1)
    state = made[0].expand(scale * torch.randn(2, 5, made[0].outer, generator=first).to(dtype))
    state = state + scale * torch.randn(state.shape, generator=second).to(dtype)
    for residual in made:
        state = residual(state, lambda u: torch.linspace(-1, 1, u.shape[-1]).to(u).expand_as(u))
    return made[-1].reduce(state)


@torch.no_grad()
@every_form
def test_a_state_of_any_size_gives_what_float64_gives_or_no_number(name, options):
    made = shaken(stack(name, 16, **options))
    of_pytorch = name in OF_PYTORCH or options.get("norm") == "rms"
    scales = (1.0, 1e10, 1e18, *([] if of_pytorch else [1e25, 1e30]))
    found = [at_scale(made, scale, torch.float32) for scale in scales]
    made.double()
    for scale, ours in zip(scales, found, strict=True):
        wanted = at_scale(made, scale, torch.float64)
        loud = scale > 1e18 and not ours.isfinite().all()
        assert loud or (ours - wanted).norm() <= 1e-4 * wanted.norm(), scale


# ---------------------------------------------------------------- under autocast

def network(name, **options):
    torch.manual_seed(0)
    config = Config.benchmark(width=16, layers=2, heads=2, max_length=8)
    return Transformer(config, name, **options)


@pytest.mark.parametrize("name, options", [*((name, {}) for name in sorted(REGISTRY)),
                                           ("benchmark-delta", {"pool": "sequence"})])
def test_a_state_keeps_its_dtype_under_autocast_and_a_step_of_training_is_finite(name, options):
    trunk, x = network(name, **options), normal(3, 7, 16, dtype=torch.float32)
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


def gram(found):
    return found.mix.mT @ found.mix


OPERATORS = [  # of these sums, or products, is the identity or 1 in float32
    *((name, options, gram) for name, options in (
        ("emhc-cayley", {}), ("emhc-hybrid", {"gate": "hard"}), ("emhc-geodesic", {}),
        ("emhc-exact", {}), ("emhc-stream", {"gate": "hard"}), ("jpmhc", {"retraction": "exact"}),
        ("benchmark-jpmhc", {"retraction": "exact"}))),
    ("mhc", {}, lambda found: found.mix.sum(-1)),
    ("benchmark-mhc", {}, lambda found: found.mix.sum(-2)),
    *((name, {}, lambda found: found.direction.norm(dim=-1))
      for name in ("delta", "benchmark-delta"))]


@pytest.mark.parametrize("name, options, measure", OPERATORS)
def test_an_operator_is_what_it_is_under_autocast_too(name, options, measure):
    first, second, *_ = shaken(network(name, **options)).layers
    with torch.autocast("cpu", torch.bfloat16):
        state = first(first.residual.expand(normal(3, 7, 16, dtype=torch.float32)))
        found = second.residual.observe(state, second.sublayer)
    found = measure(found)
    wanted = torch.eye(found.shape[-1]) if found.ndim == 4 else torch.ones(())
    assert_close(found, wanted.expand_as(found), rtol=0, atol=1e-6)


# ---------------------------------------------------------------- where they are read

def brought_when_called(model):
    """Leave NaN in each module's own parameters, except while the module is called, as offloading.
    """
    for module in model.modules():
        own = dict(module.named_parameters(recurse=False))
        if own and type(module).__name__ != "NonDynamicallyQuantizableLinear":  # torch's attention
            away = {key: nn.Parameter(torch.full_like(p, torch.nan)) for key, p in own.items()}
            module.register_forward_pre_hook(lambda m, _, own=own: m._parameters.update(own))
            module.register_forward_hook(lambda m, *_, away=away: m._parameters.update(away))
            module._parameters.update(away)
    return model


def same_when_brought(model, x):
    wanted = model(x)
    assert_close(brought_when_called(model)(x), wanted, rtol=0, atol=0)


@every_form
def test_weights_are_read_where_their_module_is_called(name, options):
    torch.manual_seed(0)
    trunk = Transformer(Config(width=16, layers=2, heads=2, hidden=24), name, **options)
    same_when_brought(shaken(TokenModel(trunk, 9)).eval(), torch.arange(8).view(2, 4))


@pytest.mark.parametrize("kind", ["transformer", "lite", "full", "moe"])
def test_so_are_those_of_the_geometric_models(kind):
    config = GeometricConfig(width=16, heads=2, hidden=24, triangles=kind == "full")
    x = normal(2, 5, 16, dtype=torch.float32)
    same_when_brought(GeometricTransformer(config, kind).eval(), x)
