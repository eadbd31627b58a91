import math
import re
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from geolab.checks import (
    model_options,
    options,
    require_count,
    require_effect,
    require_leading,
    require_number,
    require_option,
    require_pairs,
    require_square,
    require_unit,
    require_width,
)
from geolab.operators import blend, cayley_iterated

ZEROS, LONG = torch.zeros, torch.tensor([1 + 1e-6, 0.0], dtype=torch.float64)
GATE = {"scale": 2}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_normalised_vector_passes_in_its_own_precision(dtype):
    h = torch.randn(50, 300, dtype=torch.float64)
    require_unit((h / h.norm(dim=-1, keepdim=True)).to(dtype))
    require_unit(LONG.float())


def test_what_fits_passes():
    require_option("map", "k", ("k", "v"))
    require_effect(GATE, {"bias": "gate=False"})
    require_width("x", ZEROS(5, 3), 3)
    for shape in ((5, 3), (1, 3), (3,), ()):
        require_leading("x", ZEROS(*shape, 2), 1, (5, 3))
    require_square("m", ZEROS(2, 3, 3))
    require_square("m", ZEROS(3, 3), 3)
    require_pairs(ZEROS(5, 3), ZEROS(5, 3), torch.tensor(1.0))
    require_pairs(ZEROS(5, 3), ZEROS(5, 3), ZEROS(5))
    w = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    assert torch.equal(cayley_iterated(w, steps=0, start="identity"), torch.eye(2))


SQUARE = "m must be {} along its last two axes, got shape {}"
LEADING = "x must have leading axes that broadcast to those of x, (5, 3), got shape {}"


@pytest.mark.parametrize("call, message", [
    (lambda: require_unit(LONG),
     "direction must have unit length along its last axis, got length 1; normalise it with "
     "operators.unit_direction"),
    (lambda: require_unit(torch.diag(torch.tensor([1.0, 1.25, 1.0])), "axis"),
     "axis must have unit length along its last axis, got length 1.25; normalise it with "
     "operators.unit_direction"),
    *((lambda bad=bad: require_unit(torch.tensor([[1.0, 0.0], [bad, 0.0]])),
       f"direction must have unit length along its last axis, got length {bad:g}; normalise it "
       "with operators.unit_direction") for bad in (0.0, math.nan, math.inf)),
    (lambda: require_option("map", "w", ("k", "v")), "map must be one of 'k', 'v', got 'w'"),
    (lambda: require_effect(GATE, {"scale": "gate=False"}),
     "scale must be left out where gate=False, which leaves it without effect, got 2"),
    (lambda: require_width("x", ZEROS(5, 3), 4),
     "x must have 4 features along its last axis, got shape (5, 3)"),
    *((lambda shape=shape: require_leading("x", ZEROS(*shape, 2), 1, (5, 3)),
       LEADING.format((*shape, 2))) for shape in ((5, 2), (3, 5), (1, 5, 3))),
    (lambda: require_square("m", ZEROS(3, 2)), SQUARE.format("n × n", "(3, 2)")),
    (lambda: require_square("m", ZEROS(2, 3, 3), 4), SQUARE.format("4 × 4", "(2, 3, 3)")),
    (lambda: require_square("m", ZEROS(3)), SQUARE.format("n × n", "(3,)")),
    (lambda: require_pairs(ZEROS(5, 3), ZEROS(5, 4), ZEROS(5)),
     "u and v must have the same shape, got (5, 3) and (5, 4)"),
    (lambda: require_pairs(ZEROS(5, 3), ZEROS(5, 3), ZEROS(3)),
     "beta must be one number per pair, got shape (3,) for pairs of shape (5,)"),
    *((lambda gate=gate: blend(torch.eye(3), torch.eye(3), gate), f"gate must be {wanted}")
      for gate, wanted in ((1.5, "from 0 to 1, got 1.5"), (-0.1, "from 0 to 1, got -0.1"),
                           (math.nan, "a finite number, got nan"))),
    (lambda: cayley_iterated(ZEROS(2, 2), steps=-1), "steps must be at least 0, got -1"),
])
def test_what_does_not_fit_is_named(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()


# ---------------------------------------------------------------- options, written out

@dataclass(frozen=True)
class Maps:
    order: str = "rows"
    iterations: int = 20
    _cache: float = 0.5


class Other:
    def __init__(self):
        self.size, self.self, self._private = 3, self, 4


@pytest.mark.parametrize("value, written", [
    (20, {"x": "20"}), (1e-05, {"x": "1e-05"}), (True, {"x": "True"}), (None, {"x": "None"}),
    ("rows", {"x": "rows"}), (np.float64(0.1), {"x": "0.1"}),
    (torch.bfloat16, {"x": "torch.bfloat16"}), (torch.zeros(2, 3), {"x": "torch.float32 (2, 3)"}),
    (math.exp, {"x": "exp"}), (Maps, {"x": "Maps"}), (Other(), {"x": "Other"}),
    (Maps(), {"x": "Maps", "x.order": "rows", "x.iterations": "20"}),
    ((Maps("columns"), 1), {"x": "tuple", "x.0": "Maps", "x.0.order": "columns",
                            "x.0.iterations": "20", "x.1": "1"}),
    ({"a": [1, ("b", None)]}, {"x": "dict", "x.a": "[1, ('b', None)]"}),
    (partial(math.isclose, 1, rel_tol=2), {"x": "partial", "x.func": "isclose", "x.args": "(1,)",
                                           "x.rel_tol": "2"})])
def test_a_value_is_written_out_by_path(value, written):
    assert options("x", value, inside=True) == written


def test_an_object_at_the_top_gives_its_attributes_one_level_deep():
    assert options("x", Other()) == {"x": "Other", "x.size": "3", "x.self": "Other"}


class Module(nn.Module):
    def __init__(self, activation=F.relu, parent=None):
        super().__init__()
        self.activation, self.parents = activation, [parent]
        self.inner = nn.LayerNorm(4, bias=False)
        self.scale = nn.Parameter(torch.ones(2))
        self.register_buffer("seen", torch.zeros(3, dtype=torch.double))


def test_a_model_is_written_out_by_module():
    written = {"m": "Module", "m.activation": "relu", "m.parents": "list", "m.parents.0": "Module",
               "m.scale": "torch.float32 (2,)", "m.seen": "torch.float64 (3,)",
               "m.inner": "LayerNorm", "m.inner.normalized_shape": "(4,)", "m.inner.eps": "1e-05",
               "m.inner.elementwise_affine": "True", "m.inner.weight": "torch.float32 (4,)"}
    module = Module()
    module.parents = [module]
    assert model_options("m", module) == written
    assert model_options("m", module.eval()) == written  # in training or not
    assert model_options("m", Module(F.tanh, module)) == {**written, "m.activation": "tanh"}


# ---------------------------------------------------------------- numbers

@pytest.mark.parametrize("value, least", [(1, 1), (0, 0), (-3, -3), (10**30, 1), (np.int64(2), 2)])
def test_whole_numbers_pass(value, least):
    require_count("steps", value, least)


@pytest.mark.parametrize("value, message", [
    (0, "steps must be at least 1, got 0"), (-2, "steps must be at least 1, got -2"),
    (2.0, r"steps must be a whole number, got 2\.0"),
    (True, "steps must be a whole number, got True"),
    ("4", "steps must be a whole number, got '4'"),
    (None, "steps must be a whole number, got None"),
    (math.nan, "steps must be a whole number, got nan")])
def test_a_count_is_a_whole_number_and_large_enough(value, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        require_count("steps", value)


@pytest.mark.parametrize("value, range", [
    (0, {}), (-1e300, {}), (0, {"low": 0}), (2, {"low": 0, "high": 2}), (np.float32(0.5), {}),
    (1e-300, {"low": 0, "strict": True}), (-1, {"high": 0, "strict": True})])
def test_numbers_in_range_pass(value, range):
    require_number("noise", value, **range)


@pytest.mark.parametrize("value, range, wanted", [
    *((value, {}, "be a finite number") for value in (math.nan, True, "1", 1j, torch.tensor(1.0))),
    (math.inf, {"low": 0}, "be a finite number"),
    (-1, {"low": 0}, "be at least 0"), (0, {"low": 0, "strict": True}, "be positive"),
    (1, {"low": 1, "strict": True}, "be above 1"), (3, {"high": 2}, "be at most 2"),
    (2, {"high": 2, "strict": True}, "be below 2"),
    (1.5, {"low": 0, "high": 1}, "be from 0 to 1"), (-1, {"low": 0, "high": 1}, "be from 0 to 1"),
    (1, {"low": 0, "high": 1, "strict": True}, "lie strictly between 0 and 1")])
def test_a_number_is_finite_and_in_its_range(value, range, wanted):
    with pytest.raises(ValueError, match=f"^noise must {wanted}, got {re.escape(repr(value))}$"):
        require_number("noise", value, **range)
