"""A wrong option is refused by name, with what it got and what is wanted."""

from math import inf, nan

import pytest

from geolab.residuals import make_residual
from geolab.residuals.delta_pool import Pool

REFUSED = {  # a residual -> options, and what it says of them
    "delta": [
        ({"map": "q"}, "map must be one of 'k', 'v', got 'q'"),
        ({"gate": "big"}, "gate must be one of 'linear', 'mlp', got 'big'"),
        ({"value": "tanh"}, "value must be one of .*, got 'tanh'"),
        ({"map": "v", "value": "constant"}, "value='constant' can't be read .* use 'linear', .*"),
        ({"beta_init": 0.0}, "beta_init must lie strictly between 0 and 2, got 0.0"),
        ({"beta_init": 2.0}, "beta_init must lie strictly between 0 and 2, got 2.0"),
        ({"map": "v", "value": "normed-linear"},
         "value='normed-linear' can't be read .* map='v' .*"),
        ({"beta_fixed": -0.5}, "beta_fixed must be from 0 to 2, got -0.5"),
        ({"beta_fixed": 2.5}, "beta_fixed must be from 0 to 2, got 2.5"),
        ({"eps": -1}, "eps must be at least 0, got -1"),
        ({"norm_eps": -1e-05}, "norm_eps must be at least 0, got -1e-05"),
        ({"erase": "no"}, "erase must be one of True, False, got 'no'")],
    "delta-matrix": [
        ({"channels": 1}, "channels must be at least 2, got 1"),
        ({"normalize": "no"}, "normalize must be one of True, False, got 'no'"),
        ({"norm_eps": -1}, "norm_eps must be at least 0, got -1"),
        ({"kernel": 0}, "kernel must be at least 1, got 0"),
        ({"compress": "mean"}, "compress must be one of .*, got 'mean'"),
        ({"expand": "linear"}, "expand must be one of 'repeat', 'conv', got 'linear'"),
        ({"kernel_init": "random"}, "kernel_init must be one of .*, got 'random'"),
        ({"normalize": False}, "normalize=False needs erase=False: I − β h hᵀ has no bound .*"),
        ({"value": "tanh"}, "value must be one of .*, got 'tanh'"),
        ({"beta_init": 2.0}, "beta_init must lie strictly between 0 and 2, got 2.0"),
        ({"context": "norm"}, "context must be one of 'own', 'sublayer', got 'norm'"),
        ({"gate_logits": "bfloat16"}, "gate_logits must be one of .*, got 'bfloat16'"),
        ({"tied": 1.5}, "tied must be one of True, False, got 1.5"),
        ({"beta_reads": "sum"}, "beta_reads must be one of .*, got 'sum'"),
        ({"direction_reads": "sum", "map": "v"}, "direction_reads must be one of .*, got 'sum'"),
        ({"direction_reads": "mean"},
         "direction_reads must be left out where map='k', .*, got 'mean'")],
    "mhc": [
        ({"streams": 1}, "streams must be at least 2, got 1"),
        ({"order": "rows"}, "order must be one of 'column-row', 'row-column', got 'rows'"),
        ({"iterations": 0}, "iterations must be at least 1, got 0"),
        ({"diagonal": nan}, "diagonal must be a finite number, got nan"),
        ({"without": ("mix", "gate")}, "without must be one of 'read', 'write', 'mix', got 'gate'"),
        ({"start": "identity"}, "start must be one of 'plain', 'published', got 'identity'"),
        ({"mix": "identity"}, "mix must be one of 'sinkhorn', 'permutations', .*"),
        ({"mix": "circulant", "without": ("mix",)},
         r"mix must be left out where without=\('mix',\), which .*, got 'circulant'"),
        ({"mix": "kronecker", "streams": 3},
         "streams must be a power of 2 for mix='kronecker', got 3"),
        ({"mix": "permutations", "streams": 7},
         "streams must be at most 6 for mix='permutations', got 7"),
        ({"mix": "orthostochastic", "blocks": 0}, "blocks must be at least 1, got 0"),
        ({"eps": -1.0}, "eps must be at least 0, got -1.0"),
        ({"write_eps": "no"}, "write_eps must be a finite number, got 'no'"),
        ({"norm_eps": inf}, "norm_eps must be a finite number, got inf"),
        ({"readout": "sum"}, "readout must be one of 'mean', 'learned', got 'sum'")],
    "single-pass": [({"streams": 1}, "streams must be at least 2, got 1")],
    "gated-streams": [
        ({"streams": 1}, "streams must be at least 2, got 1"),
        ({"rank": 0}, "rank must be at least 1, got 0"),
        ({"std": -1}, "std must be at least 0, got -1"),
        ({"eps": -1}, "eps must be at least 0, got -1")],
    "jpmhc": [
        ({"streams": 1}, "streams must be at least 2, got 1"),
        ({"retraction": "cayley"}, "retraction must be one of 'iterated', 'exact', got 'cayley'"),
        ({"ends": "linear"}, "ends must be one of 'scaled', 'copied', 'split', got 'linear'"),
        ({"norm": "batch"}, "norm must be one of 'layer', 'rms', got 'batch'"),
        ({"write_scale": 2}, "write_scale must be one of True, False, got 2"),
        ({"retraction": "exact", "streams": 3},
         "retraction='exact' is a closed form for 4 streams, got streams = 3; .*"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"temperature": 0.0}, "temperature must be positive, got 0.0"),
        ({"alpha": 0.0}, "alpha must be positive, got 0.0")],
    "hyper": [
        ({"streams": 0}, "streams must be at least 1, got 0"),
        ({"dynamic": "static"}, "dynamic must be one of True, False, got 'static'"),
        ({"tanh": "none"}, "tanh must be one of True, False, got 'none'")],
    "mgt": [
        ({"beta_scale": 0.0}, "beta_scale must be positive, got 0.0"),
        ({"alpha_init": inf}, "alpha_init must be a finite number, got inf"),
        ({"gate": "soft"}, "gate must be one of True, False, got 'soft'"),
        ({"erase": None}, "erase must be one of True, False, got None"),
        ({"beta_init": 2.0},
         "beta_init must lie strictly between beta_offset ± beta_scale = 0 and 2, got 2.0"),
        ({"beta_offset": 0.0},
         "beta_init must lie strictly between beta_offset ± beta_scale = -1 and 1, got 1.0")],
    "mgt-token": [({"erase": False}, "erase must be one of True, got False")],
    "mgt-projected": [({"erase": False}, "erase must be one of True, got False")],
    "layer-scale": [({"start": "published"}, "start must be a finite number, got 'published'")],
    "emhc-mixer": [
        ({"streams": 1}, "streams must be at least 2, got 1"),
        ({"hidden": 0}, "hidden must be at least 1, got 0"),
        ({"penalty": -1.0}, "penalty must be at least 0, got -1.0"),
        ({"ends": "scaled"}, "ends must be one of 'copied', 'split', got 'scaled'"),
        ({"router_reads": "x"}, "router_reads must be one of 'state', 'mixed', got 'x'"),
        ({"norm": "batch"}, "norm must be one of 'rms', 'layer', got 'batch'"),
        ({"norm_eps": 0.0}, "norm_eps must be positive, got 0.0"),
        ({"start": "zero"}, "start must be one of 'plane', 'published', got 'zero'")],
    "emhc-cayley": [
        ({"width": 18}, "width must be divisible by streams, .*, got width 18 and streams 4"),
        ({"streams": 1},
         "width must be divisible by streams, at least 2 of them, got width 16 and streams 1"),
        ({"pool": "mean"}, "pool must be one of 'causal', 'token', 'sequence', got 'mean'"),
        ({"maps": "random"}, "maps must be one of 'identity', 'published', 'none', got 'random'"),
        ({"beta_init": 0.0}, "beta_init must be positive, got 0.0"),
        ({"nets": "two"}, "nets must be one of 'one', 'separate', got 'two'"),
        ({"hidden_ratio": 0}, "hidden_ratio must lie between 0 and width = 16, got 0"),
        ({"hidden_ratio": 17}, "hidden_ratio must lie between 0 and width = 16, got 17"),
        ({"streams": 1.5}, "streams must be a whole number, got 1.5")],
    "emhc-geodesic": [
        ({"width": 12}, "width must be divisible by 2 · streams, .* width 12 and 2 · streams 8"),
        ({"gate_bias": inf}, "gate_bias must be a finite number, got inf")],
    "emhc-stream": [
        ({"streams": 1}, "streams must be at least 2, got 1"),
        ({"pool": "mean"}, "pool must be one of 'causal', 'token', 'sequence', got 'mean'"),
        ({"gate": "step"}, "gate must be one of 'soft', 'hard', got 'step'"),
        ({"start": "zero"}, "start must be one of 'plane', 'published', got 'zero'"),
        ({"gate_bias": -inf}, "gate_bias must be a finite number, got -inf"),
        ({"penalty": -1}, "penalty must be at least 0, got -1"),
        ({"ends": "scaled"}, "ends must be one of 'copied', 'split', got 'scaled'"),
        ({"router_reads": "x"}, "router_reads must be one of 'state', 'mixed', got 'x'"),
        ({"hidden": 0}, "hidden must be at least 1, got 0")],
    "emhc-hybrid": [
        ({"gate": "step"}, "gate must be one of 'soft', 'hard', got 'step'"),
        ({"start": "zero"}, "start must be one of 'plane', 'published', got 'zero'"),
        ({"beta_init": nan}, "beta_init must be a finite number, got nan"),
        ({"gate_bias": nan}, "gate_bias must be a finite number, got nan"),
        ({"penalty": -1}, "penalty must be at least 0, got -1"),
        ({"gate_head": "mlp"}, "gate_head must be one of 'generator', 'linear', got 'mlp'")],
    "benchmark-delta": [
        ({"pool": "mean"}, "pool must be one of 'causal', 'token', 'sequence', got 'mean'"),
        ({"width": 3}, "width must be at least 4, got 3")],
    "benchmark-mhc": [({"width": 10}, "width must be divisible by 4, got 10")],
    "attnres": [
        ({"block": 0}, "block must be at least 1, got 0"),
        ({"read": "max"}, "read must be one of 'mean', 'sum', got 'max'"),
        ({"values": "raw"}, "values must be one of 'plain', 'normed', got 'raw'"),
        ({"scaled": 2}, "scaled must be one of True, False, got 2"),
        ({"queries": 2}, "queries must be one of 1, 3, got 2"),
        ({"eps": -1.0}, "eps must be at least 0, got -1.0")],
    "denseformer": [({"block": 0}, "block must be at least 1, got 0")],
    "muddformer": [
        ({"block": 0}, "block must be at least 1, got 0"),
        ({"ways": 2}, "ways must be one of 1, 4, got 2")],
    "delta-product": [
        ({"factors": 0}, "factors must be at least 1, got 0"),
        ({"beta_init": 2.0}, "beta_init must lie strictly between 0 and 2, got 2.0"),
        ({"beta_fixed": 2.5}, "beta_fixed must be from 0 to 2, got 2.5"),
        ({"eps": -1.0}, "eps must be at least 0, got -1.0")],
    "deepnorm": [({"alpha": -1.0}, "alpha must be .*, got -1.0")],
    "laurel": [({"rank": 0}, "rank must be at least 1, got 0")],
    "scaled": [
        ({"learned": ("scale",)}, "learned must be one of 'state'.*got 'scale'"),
        ({"learned": "state"}, "learned must be one of 'state'.*got 's'"),
        ({"update": nan}, "update must be a finite number, got nan")],
    "norm-preserving": [
        ({"share": "half"}, "share must be one of .*'depth', got 'half'"),
        ({"temperature": 0}, "temperature must be positive, got 0"),
        ({"floor": 2}, "floor must be from 0 to 1, got 2"),
        ({"eps": -1}, "eps must be at least 0, got -1")],
    "value-residual": [
        ({"first_weight": nan}, "first_weight must be a finite number, got nan"),
        ({"own_weight": inf}, "own_weight must be a finite number, got inf"),
        ({"learned": 2}, "learned must be one of True, False, got 2")],
}


@pytest.mark.parametrize("name, options, message", [
    (name, *row) for name, rows in REFUSED.items() for row in rows])
def test_a_bad_option_is_named(name, options, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        make_residual(name, **{"width": 16} | options)


def test_a_pool_of_another_name_is_refused():
    with pytest.raises(ValueError, match="^how must be one of 'mean', 'flatten', 'attention'"):
        Pool(8, 4, "sum")
