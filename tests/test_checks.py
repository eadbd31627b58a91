"""What fits passes, what doesn't is named, and options are written out by path."""

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
    require_norm,
    require_number,
    require_option,
    require_options,
    require_pairs,
    require_real,
    require_square,
    require_state,
    require_together,
    require_unit,
    require_width,
    require_write,
)

ZEROS, LONG = torch.zeros, torch.tensor([1 + 1e-6, 0.0], dtype=torch.float64)
WHOLE, COMPLEX = ZEROS(3, dtype=torch.int64), ZEROS(3, dtype=torch.complex64)
WRITE = (ZEROS(5, 4, 3), ZEROS(5, 4, 4), ZEROS(5, 4), ZEROS(5, 3))
FITS = [
    *((require_unit, F.normalize(torch.randn(50, 300, dtype=torch.float64), dim=-1).to(dtype))
      for dtype in (torch.float32, torch.float64, torch.bfloat16)),
    (require_unit, LONG.float()), (require_option, "map", "k", ("k", "v")),
    *((require_options, "parts", given, ("k", "v")) for given in ((), ["v", "k"], {"k"})),
    (require_effect, {"scale": 2}, {"bias": "gate=False"}), (require_width, "x", ZEROS(5, 3), 3),
    *((require_leading, "x", ZEROS(*shape, 2), 1, (5, 3))
      for shape in ((5, 3), (1, 3), (3,), ())),
    (require_square, "m", ZEROS(2, 3, 3)), (require_square, "m", ZEROS(3, 3), 3),
    *((require_pairs, ZEROS(5, 3), ZEROS(5, 3), ZEROS(shape)) for shape in ((), (5,))),
    (require_norm, None, 3), (require_norm, (ZEROS(3), 0.1), 3), (require_norm, torch.tanh, 3),
    (require_write, *WRITE), (require_state, "x", ZEROS(3)), (require_state, "x", ZEROS(2, 3), 2),
    *((require_count, "steps", value, least) for value, least in (
        (1, 1), (0, 0), (-3, -3), (10**30, 1), (np.int64(2), 2))),
    *((require_number, "noise", *given) for given in (
        (-1e300,), (0, 0), (2, 0, 2), (np.float32(0.5),), (1e-300, 0, math.inf, True),
        (-1, -math.inf, 0, True)))]
LEADING = "{} must have leading axes that broadcast to those of x, {}, got shape {}"
REFUSED = [
    *((require_unit, torch.tensor([[1.0, 0.0], [bad, 0.0]]), "axis",
       f"axis must have unit length along its last axis, got length {bad:g}; normalise it with "
       "operators.unit_direction") for bad in (1.25, 0.0, math.nan, math.inf)),
    (require_unit, LONG, "direction must have unit length along its last axis, got length 1; "
     "normalise it with operators.unit_direction"),
    (require_option, "map", "w", ("k", "v"), "map must be one of 'k', 'v', got 'w'"),
    (require_option, "erase", 1, (True, False), "erase must be one of True, False, got 1"),
    (require_option, "map", [], {"k": 0, "v": 1}, "map must be one of 'k', 'v', got []"),
    (require_options, "parts", ("k", "w"), ("k", "v"), "parts must be one of 'k', 'v', got 'w'"),
    *((require_options, "parts", value, ("k", "v"),
       f"parts must be a tuple of some of 'k', 'v', got {value!r}") for value in ("k", 1, None)),
    (require_effect, {"scale": 2}, {"scale": "gate=False"},
     "scale must be left out where gate=False, which leaves it without effect, got 2"),
    (require_width, "x", ZEROS(5, 3), 4,
     "x must have 4 features along its last axis, got shape (5, 3)"),
    *((require_leading, "x", ZEROS(*shape, 2), 1, (5, 3), LEADING.format("x", (5, 3), (*shape, 2)))
      for shape in ((5, 2), (3, 5), (1, 5, 3))),
    *((require_square, "m", ZEROS(shape), size, f"m must be {wanted} along its last two axes, got "
       f"shape {shape}") for shape, size, wanted in (
           ((3, 2), None, "n × n"), ((2, 3, 3), 4, "4 × 4"), ((3,), None, "n × n"))),
    (require_pairs, ZEROS(5, 3), ZEROS(5, 4), ZEROS(5),
     "u and v must have the same shape, got (5, 3) and (5, 4)"),
    (require_pairs, ZEROS(5, 3), ZEROS(5, 3), ZEROS(3),
     "beta must be one number per pair, got shape (3,) for pairs of shape (5,)"),
    (require_norm, (ZEROS(2), 0.1), 3,
     "norm must have 3 features along its last axis, got shape (2,)"),
    (require_norm, (ZEROS(2, 3), 0.1), 3, LEADING.format("norm", (), (2, 3))),
    *((require_state, "x", x, f"x must have a floating-point dtype, got {x.dtype}")
      for x in (WHOLE, COMPLEX, WHOLE > 0)),
    (require_state, "x", ZEROS(()), "x must have at least 1 axis, got shape ()"),
    (require_state, "x", ZEROS(3), 2, "x must have at least 2 axes, got shape (3,)"),
    (require_width, "x", ZEROS(()), 4,
     "x must have 4 features along its last axis, got shape ()"),
    (require_leading, "m", ZEROS(3), 2, (), "m must have at least 2 axes, got shape (3,)"),
    *((require_write, *WRITE[:k], ZEROS(2, *WRITE[k].shape[1:]), *WRITE[k + 1:],
       LEADING.format(name, [5], (2, *WRITE[k].shape[1:])).replace("[5]", "(5,)"))
      for k, name in ((1, "matrix"), (2, "weights"), (3, "update"))),
    (require_count, "steps", 0, "steps must be at least 1, got 0"),
    *((require_count, "steps", value, f"steps must be a whole number, got {value!r}")
      for value in (2.0, True, "4", None, math.nan)),
    *((require_number, "noise", value, *given, f"noise must {wanted}, got {value!r}")
      for value, given, wanted in (
          *((value, (), "be a finite number") for value in (math.nan, True, "1", 1j, ZEROS(()))),
          (math.inf, (0,), "be a finite number"), (-1, (0,), "be at least 0"),
          (0, (0, math.inf, True), "be positive"), (1, (1, math.inf, True), "be above 1"),
          (3, (-math.inf, 2), "be at most 2"), (2, (-math.inf, 2, True), "be below 2"),
          (1.5, (0, 1), "be from 0 to 1"), (-1, (0, 1), "be from 0 to 1"),
          (1, (0, 1, True), "lie strictly between 0 and 1")))]


@pytest.mark.parametrize("check, arguments", [(check, given) for check, *given in FITS])
def test_what_fits_passes(check, arguments):
    check(*arguments)


@pytest.mark.parametrize("check, arguments, message",
                         [(check, given, message) for check, *given, message in REFUSED])
def test_what_does_not_fit_is_named(check, arguments, message):
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(message)}$"):
        check(*arguments)


def test_a_number_is_real_and_finite_and_a_tensor_real():
    require_real(x=WHOLE, y=0.5, z=ZEROS(2))
    for wrong, error, said in ((COMPLEX, TypeError, "real numbers, got torch.complex64"),
                               (None, ValueError, "finite number, got None"),
                               (math.nan, ValueError, "finite number, got nan")):
        with pytest.raises(error, match=f"^y must (have|be a) {said}$"):
            require_real(x=1, y=wrong)


def test_leading_axes_broadcast_to_common_ones():
    for shapes in ((), ((),), ((3,), (2, 1), ()), ((2, 3), (3,), (1, 1, 3)), ((0,), (1,))):
        require_together(**dict(zip("abc", shapes, strict=False)))
    for a, b in (((2,), (3,)), ((2, 3), (2,)), ((0,), (2,))):
        with pytest.raises(ValueError, match=re.escape(
                f"a and b must have leading axes that broadcast to common ones, got {a} and {b}")):
            require_together(a=a, b=b)


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
    def __init__(self, activation=F.relu):
        super().__init__()
        self.activation, self.parents = activation, [self]
        self.inner = nn.LayerNorm(4, bias=False)
        self.scale = nn.Parameter(torch.ones(2))
        self.register_buffer("seen", torch.zeros(3, dtype=torch.double))


def test_a_model_is_written_out_by_module():
    written = {"m": "Module", "m.activation": "relu", "m.parents": "list", "m.parents.0": "Module",
               "m.scale": "torch.float32 (2,)", "m.seen": "torch.float64 (3,)",
               "m.inner": "LayerNorm", "m.inner.normalized_shape": "(4,)", "m.inner.eps": "1e-05",
               "m.inner.elementwise_affine": "True", "m.inner.weight": "torch.float32 (4,)"}
    assert model_options("m", Module()) == written
    assert model_options("m", Module().eval()) == written  # in training or not
    assert model_options("m", Module(F.tanh)) == {**written, "m.activation": "tanh"}
