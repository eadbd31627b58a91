"""An option that is given has an effect, or is refused with the one that leaves it without."""

from unittest.mock import patch

import pytest
import torch
from shared import shaken, stack
from torch import nn

from geolab.models import TransformerConfig
from geolab.models.layers import Attention
from geolab.penalties import collect_penalties
from geolab.residuals import REGISTRY, Normed
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
