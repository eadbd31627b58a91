"""An option has an effect, or is refused: a wrong one, and one that another leaves without."""

import re
from math import inf, nan
from unittest.mock import patch

import pytest
import torch
from shared import FORMS, WIDTH, shaken, stack
from torch import nn

from geolab.models import Transformer, TransformerConfig
from geolab.models.layers import Attention
from geolab.penalties import collect_penalties
from geolab.residuals import REGISTRY, Additive, Normed, make_residual
from geolab.residuals.base import options_of
from geolab.residuals.delta import VALUES
from geolab.residuals.delta_matrix import COMPRESSORS
from geolab.residuals.delta_pool import POOLS
from geolab.residuals.mixing import mixes

# values that some residual takes, by option; all of SWITCHES are tried beside all others
SWITCHES = {
    "beta_fixed": (1.5,), "beta_reads": POOLS, "block": (1, 2),
    "compress": COMPRESSORS, "context": ("sublayer",),
    "direction_reads": POOLS, "dynamic": (False,), "ends": ("copied", "split"), "erase": (False,),
    "expand": ("conv",), "gate": ("mlp", "hard", False), "gate_head": ("linear",),
    "gate_logits": ("single",), "kernel_init": ("published",), "learned": ((), ("state",), False),
    "map": ("v",), "maps": ("published", "none"), "mix": ("cayley", *mixes()),
    "nets": ("separate",), "norm": ("rms", "layer"), "normalise": (True,), "normalize": (False,),
    "order": ("row-column",), "pool": ("token", "sequence"), "queries": (3,), "read": ("sum",),
    "readout": ("learned",), "retraction": ("exact",), "router_reads": ("mixed",),
    "scaled": (True,), "share": ("depth",), "start": ("published",), "tanh": (False,),
    "tied": (True,), "value": tuple(VALUES), "values": ("normed",), "write_scale": (False,),
    "ways": (4,),
    "without": (("mix",), ("read",), ("write",), ("read", "mix"), ("read", "write", "mix"))}
NUMBERS = {
    "alpha": 0.7, "alpha_init": 0.5, "beta_init": 0.6, "beta_offset": 0.7, "beta_scale": 1.5,
    "blocks": 1, "channels": 3, "diagonal": 1.0, "eps": 0.5, "factors": 3, "first_weight": 0.7,
    "floor": 0.9, "gate_bias": 1.0, "hidden": 5, "hidden_ratio": 2, "iterations": 1, "kernel": 2,
    "norm_eps": 0.5, "own_weight": 0.7, "penalty": 0.3, "rank": 3, "start": 0.7, "state": 0.7,
    "std": 0.3, "steps": 1, "streams": 2, "temperature": 0.7, "update": 0.7, "write_eps": 0.5}
# two options that together switch off what neither does alone
TOGETHER = [
    {"erase": False, "normalize": False}, {"map": "v", "direction_reads": "mean"},
    {"map": "v", "direction_reads": "mean", "beta_reads": "mean"},
    {"without": ("read",), "mix": "circulant"}]


def values_of(option, default):
    """The values that have the type of the default."""
    found = (*SWITCHES.get(option, ()), *([NUMBERS[option]] if option in NUMBERS else ()))
    return [value for value in found if default is None or type(value) is type(default)]


@torch.no_grad()
def seen(residual, options):
    """All that its options can change: the start, one pass under autocast, and the penalties."""
    torch.manual_seed(0)
    # where the first layer of attention reads one source
    made = stack(residual, 16, 3 if residual in (
        "attnres", "muddformer", "value-residual") else 2, **options)
    start = [(name, p.clone()) for name, p in made.named_parameters()]
    shaken(made)
    torch.manual_seed(1)
    attention = Attention(TransformerConfig.benchmark(width=16, heads=2))
    norm = shaken(nn.RMSNorm(16, eps=1e-5))
    sublayer = Normed(attention, norm, takes_views=True, takes_values=True)
    x = torch.randn(1, 5, made[0].outer)
    with collect_penalties() as penalties, torch.autocast("cpu", torch.bfloat16):
        state = made[0].expand(x)  # and then tell the streams apart, which may start as copies
        state = state + torch.randn(state.shape)
        for residual in made:
            state = residual(state, sublayer)
        return start, [made[-1].reduce(state), *penalties]


def same(one, other):
    starts, results = zip(one, other, strict=True)
    named = [[name for name, _ in start] for start in starts]
    tensors = [[*(p for _, p in start), *result] for start, result in
               zip(starts, results, strict=True)]
    return named[0] == named[1] and len(tensors[0]) == len(tensors[1]) and all(
        a.shape == b.shape and torch.equal(a, b) for a, b in zip(*tensors, strict=True))


def tried(residual, **options):
    """What is seen, or the error of an option that is refused."""
    try:
        return seen(residual, options)
    except ValueError as error:
        return str(error)


def acts(residual, form, alone, option):
    """Whether an option has an effect beside the others of a form. Where it is refused it has none.
    """
    default = options_of(REGISTRY[residual])[option]
    for value in values_of(option, default):
        found = default if value == default else tried(residual, **form, **{option: value})
        if found is default:
            continue
        if not isinstance(found, str):
            assert not same(alone, found), (form, option, value)
            return True
        if found.startswith(f"{option} must be left out where"):
            assert any(f"{one}={known!r}" in found for one, known in
                       (options_of(REGISTRY[residual]) | form).items())
            if default is not None:  # it counts as given then too
                assert tried(residual, **form, **{option: default}).startswith(option)
            with patch.object(REGISTRY[residual], "idle", lambda options: {}):
                unrefused = tried(residual, **form, **{option: value})
                assert isinstance(unrefused, str) or same(alone, unrefused), (form, option)
            return False
    return False


@pytest.mark.parametrize("residual", sorted(REGISTRY))
def test_an_option_has_an_effect_or_is_refused_and_is_refused_only_without(residual):
    defaults = options_of(REGISTRY[residual])
    names, acting = set(defaults), set()
    forms = [{}, *({name: value} for name in SWITCHES.keys() & names
                   for value in values_of(name, defaults[name])),
             *(form for form in TOGETHER if set(form) <= names)]
    for form in forms:
        alone = tried(residual, **form)
        if not isinstance(alone, str):  # else the value is another residual's, or needs an option
            acting |= {name for name in names - set(form) if acts(residual, form, alone, name)}
    # in two forms of MGT it takes one value
    assert names - acting <= ({"erase"} if residual.startswith("mgt-") else set())


# ---------------------------------------------------------------- what is refused

OPTIONS = [(name, option) for name, residual in REGISTRY.items() for option in options_of(residual)]


def where_it_acts(name, option):
    """One other option at most, beside which this one has an effect."""
    defaults = options_of(REGISTRY[name])
    forms = [{}, *({other: value} for other in SWITCHES.keys() & defaults.keys() - {option}
                   for value in values_of(other, defaults[other]))]
    return next(form for form in forms if option not in REGISTRY[name].idle(defaults | form))


@pytest.mark.parametrize("name, option", OPTIONS)
def test_a_value_of_another_kind_is_refused_by_the_option_s_name(name, option):
    default, form = options_of(REGISTRY[name])[option], where_it_acts(name, option)
    number = not isinstance(default, str | bool | tuple)
    for value in ("no such", nan, inf, True, 0, -1, 0.5, None, {}):
        if value is None:
            fits = default is None or option in ("norm_eps", "diagonal")
        else:
            fits = isinstance(default, bool) if value is True else number and value in (0, -1, 0.5)
        try:
            make_residual(name, 16, **form, **{option: value})
        except ValueError as error:
            said = str(error)
            assert option in said if fits else re.fullmatch(
                f"{option} must .*, got {re.escape(repr(value))}", said), (value, said)
        else:
            assert fits, value


@pytest.mark.parametrize("name, options", FORMS)
def test_make_residual_keeps_the_options(name, options):
    assert make_residual(name, 16, **options).options == options


POSITIVE = [("mgt", "beta_scale"), ("jpmhc", "temperature"), ("jpmhc", "alpha"),
            ("emhc-cayley", "beta_init"), ("emhc-mixer", "norm_eps"),
            ("norm-preserving", "temperature")]
NOT_NEGATIVE = [*((name, "eps") for name in ("delta", "delta-product", "mhc", "gated-streams",
                                             "attnres", "norm-preserving")),
                *((name, "norm_eps") for name in ("delta", "delta-matrix", "mhc")),
                *((name, "penalty") for name in ("emhc-hybrid", "emhc-stream", "emhc-mixer")),
                ("mhc", "write_eps"), ("gated-streams", "std"), ("deepnorm", "alpha")]
COUNTED = [("mhc", "iterations"), ("jpmhc", "steps"), ("hyper", "streams"),
           ("delta-product", "factors"), ("delta-matrix", "kernel"), ("gated-streams", "rank"),
           ("laurel", "rank"), ("emhc-stream", "hidden"), ("emhc-mixer", "hidden"),
           *((name, "block") for name in ("attnres", "denseformer", "muddformer"))]
FEWEST_TWO = [("delta-matrix", "channels"), *((name, "streams") for name in (
    "mhc", "single-pass", "gated-streams", "jpmhc", "emhc-stream", "emhc-mixer"))]
RANGE = "lie strictly between 0 and 2"
REFUSED = [  # residual, options, what it says of them
    *((name, {option: 0}, f"{option} must be positive, got 0") for name, option in POSITIVE),
    *((name, {option: -1}, f"{option} must be at least 0, got -1")
      for name, option in NOT_NEGATIVE),
    *((name, {option: 0}, f"{option} must be at least 1, got 0") for name, option in COUNTED),
    *((name, {option: 1}, f"{option} must be at least 2, got 1") for name, option in FEWEST_TWO),
    *((name, {"beta_init": end}, f"beta_init must {RANGE}, got {end}")
      for name in ("delta", "delta-product") for end in (0.0, 2.0)),
    *((name, {"beta_fixed": out}, f"beta_fixed must be from 0 to 2, got {out}")
      for name in ("delta", "delta-product") for out in (-0.5, 2.5)),
    ("delta", {"map": "v", "value": "constant"}, "value='constant' can't be read"),
    ("delta", {"map": "v", "value": "normed-linear"}, "value='normed-linear' can't be read"),
    ("delta-matrix", {"map": "v", "direction_reads": "sum"}, "direction_reads must be one of"),
    ("delta-matrix", {"normalize": False}, "normalize=False needs erase=False"),
    ("mhc", {"mix": "kronecker", "streams": 3}, "streams must be a power of 2"),
    ("mhc", {"mix": "permutations", "streams": 7}, "streams must be at most 6"),
    ("jpmhc", {"retraction": "exact", "streams": 3}, "closed form for 4 streams"),
    ("mgt", {"beta_init": 2.0}, "beta_init must lie strictly between beta_offset ± beta_scale = 0"),
    ("mgt", {"beta_offset": 0.0}, "beta_offset ± beta_scale = -1 and 1, got 1.0"),
    ("mgt-token", {"erase": False}, "erase must be one of True, got False"),
    ("emhc-cayley", {"width": 18}, "width must be divisible by streams"),
    ("emhc-cayley", {"streams": 1}, "at least 2 of them, got width 16 and streams 1"),
    ("emhc-geodesic", {"width": 12}, "width must be divisible by 2 · streams"),
    ("emhc-cayley", {"hidden_ratio": 0}, "hidden_ratio must lie between 0 and width = 16, got 0"),
    ("emhc-cayley", {"hidden_ratio": 17}, "hidden_ratio must lie between 0 and width = 16, got 17"),
    ("benchmark-delta", {"width": 3}, "width must be at least 4, got 3"),
    ("benchmark-mhc", {"width": 10}, "width must be divisible by 4, got 10"),
    ("norm-preserving", {"floor": 2}, "floor must be from 0 to 1, got 2"),
    ("emhc-cayley", {"streams": 1.5}, "streams must be a whole number, got 1.5"),
    ("mhc", {"mix": "orthostochastic", "blocks": 0}, "blocks must be at least 1, got 0"),
    ("mhc", {"diagonal": inf}, "diagonal must be a finite number, got inf"),
    ("detla", {}, f"unknown residual 'detla'; known: {', '.join(sorted(REGISTRY))}"),
]


@pytest.mark.parametrize("name, options, said", REFUSED, ids=str)
def test_a_value_that_does_not_fit_is_refused(name, options, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        make_residual(name, **{"width": 16} | options)


@pytest.mark.parametrize("residual, option, said", [
    # of its base classes too, but not what it gives these itself
    ("delta", "gamma", "residual 'delta' has no option 'gamma'; its options: map, gate, "),
    ("delta", "channels", "residual 'delta' has no option 'channels'; "),
    ("emhc-cayley", "sizes", "residual 'emhc-cayley' has no option 'sizes'; "),
    ("benchmark-jpmhc", "gamma", "its options: streams, mix, retraction"),
    (Additive, "gamma", "residual 'Additive' has no option 'gamma'; its options: none")])
def test_an_unknown_option_is_refused_with_those_that_it_has(residual, option, said):
    with pytest.raises(TypeError, match=re.escape(said)):
        make_residual(residual, 8, **{option: 1})


def made_for(name, index=0, **options):
    return make_residual(name, WIDTH, index, 6, **options)


def network(name, **changes):
    config = TransformerConfig(**{"width": WIDTH, "layers": 1, "heads": 2} | changes)
    return Transformer(config, name)


class Far(Additive):
    reach = 6


ONE, MATRIX = torch.ones(2, 3, WIDTH), torch.ones(2, 3, WIDTH, 4)
NO_VALUES = "^the sublayer of ValueResidual must be attention that takes values"


@pytest.mark.parametrize("call, said", [
    *((lambda around=around: made_for("delta", context="sublayer")(ONE, around),
       "^context='sublayer' needs a sublayer with a norm, ")
      for around in (torch.tanh, Normed(torch.tanh))),
    (lambda: made_for("delta-matrix", 1, tied=True)(MATRIX, torch.tanh),
     "^with tied=True every second sublayer reads through "),
    (lambda: made_for("delta-matrix", beta_reads="mean").coefficients(ONE, torch.tanh),
     "^a generator that pools the state needs it: "),
    *((lambda around=around, index=index: made_for("value-residual", index)(
        torch.cat([ONE, ONE], -1), around), NO_VALUES) for index in (0, 2)
      for around in (torch.tanh, Normed(torch.tanh), Normed(torch.tanh, takes_views=True))),
    (lambda: network("value-residual", norm_at="post"), "^norm_at='post' normalises streams"),
    (lambda: network(Far, max_length=5), "^max_length must be at least 6, .*Far.*, got 5$")])
def test_a_place_that_does_not_fit_is_refused(call, said):
    with pytest.raises(ValueError, match=said):
        call()
    assert Additive(WIDTH).reach == 1 and network(Far, max_length=6)
