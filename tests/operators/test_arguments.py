"""Laws of every operator's arguments: what it takes gives right numbers, and what it doesn't take
is named, with a kernel and without.
"""

import math
import re

import pytest
import torch
from test_every_operator import EPS, EXAMPLES, READS_NUMBERS, N, given, operator
from torch import ones
from torch.testing import assert_close

from geolab import kernels, operators
from geolab.operators.attend import Attention
from geolab.operators.generate import Maps

SAYS_WHAT = re.compile(r"^[\w ]+ must ")
WHOLE, COMPLEX, DOUBLE, BROAD = torch.int64, torch.complex64, torch.float64, torch.bfloat16
FORMULAS = {"midpoint_penalty", "skew"}  # they take any numbers
MODES = [(name, mode) for name in EXAMPLES if name not in FORMULAS for mode in ("never", "always")
         if mode == "never" or name.split(",")[0] in kernels.TWINS]
every_mode = pytest.mark.parametrize("name, mode", MODES)


def drawn(name):
    streams = EXAMPLES[name].streams
    return given(name, 4 if 4 in streams else streams[-1])


def tried(name, mode, inputs):
    """The outputs; or nothing, where the message says which argument must be what."""
    try:
        with kernels.use(mode):
            found = operator(name)(*inputs)
    except (TypeError, ValueError) as error:
        assert SAYS_WHAT.match(str(error)), (name, [tuple(x.shape) for x in inputs], error)
        return None
    return [x for x in (found if isinstance(found, tuple) else (found,)) if x.numel() > 1]


@pytest.mark.parametrize("name, mode, dtype", [
    (name, mode, dtype) for name, mode in MODES
    for dtype in (WHOLE, COMPLEX, *((torch.bool, DOUBLE, BROAD) if mode == "never" else ()))])
def test_another_dtype_of_one_argument_gives_right_numbers_or_is_named(name, mode, dtype):
    inputs = drawn(name)
    for place, x in enumerate(inputs):
        changed = [*inputs[:place], x.to(dtype), *inputs[place + 1:]]
        found = tried(name, mode, changed)
        if found is None:
            assert not dtype.is_floating_point, place
            continue
        assert not dtype.is_complex, place
        wanted = tried(name, "never", [x.double() for x in changed])
        tolerance = 5e-2 if dtype == BROAD else 1e-4
        for ours, exact in zip(found, wanted, strict=True):
            error = (ours - exact).norm()
            # a direction of whole numbers may be 0, which has no unit vector
            assert error <= tolerance * exact.norm() or exact.isnan().any(), (place, error)


@every_mode
def test_another_shape_of_one_argument_is_broadcast_or_named(name, mode):
    inputs = drawn(name)
    usual = [x.shape for x in tried(name, "never", inputs)]
    for place, x in list(enumerate(inputs))[1:]:  # the first argument may have other axes
        if (name, place) == ("gated_read", 2):  # the example flattens them
            continue
        shapes = [x.flatten()[0], *([torch.cat([x, x], -1), x[0]] if x.numel() > 1 else ())]
        for other in shapes:
            found = tried(name, mode, [*inputs[:place], other, *inputs[place + 1:]])
            if found is not None:
                same = [*inputs[:place], other.expand_as(x).contiguous(), *inputs[place + 1:]]
                assert [x.shape for x in found] == usual, (place, other.shape)
                assert_close(found, tried(name, "never", same), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", [name for name, mode in MODES if mode == "never"])
def test_a_bad_number_stays_in_its_token(name):
    inputs = drawn(name)
    usual = tried(name, "never", inputs)
    for place, x in enumerate(inputs):
        if x.ndim < 2 or len(x) != N or "map" in name or name.startswith("rms") and place:
            continue
        worse = x.clone()
        worse[1] = math.nan
        found = tried(name, "never", [*inputs[:place], worse, *inputs[place + 1:]])
        if found is None:
            assert name in READS_NUMBERS  # which refuse a direction of another length
            continue
        assert not all(ours[1].isfinite().all() for ours in found if len(ours) == N), place
        for ours, wanted in zip(found, usual, strict=True):
            if len(ours) == N:
                assert_close(ours[::2], wanted[::2], rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------- numbers and words

X, K, NAN = ones(3, 4, 5), torch.tensor([0.6, 0.8]), math.nan
MAPS = Maps(ones(6, 5), ones(2), ones(24))
NUMBERS = [
    (lambda x: operators.unit_direction(K, x), "eps", (-1.0, NAN, True, "1")),
    (lambda x: operators.delta_update(K, K, 0.0, 1.0, eps=x), "eps", (-1.0, NAN, True)),
    (lambda x: operators.delta_update(K, K, 0.0, 1.0, erase=x), "erase", ("no", 1, None)),
    (lambda x: operators.delta_update(K, K, x, 1.0), "value", (NAN, True, None, math.inf)),
    (lambda x: operators.delta_update(K, K, 0.0, x), "beta", (NAN, True, None, math.inf)),
    (lambda x: operators.delta_matrix(K, x), "beta", (NAN, True, None)),
    (lambda x: operators.cayley_rank2(K, K, x), "beta", (NAN, True, None)),
    (lambda x: operators.cayley_iterated(operators.skew(ones(2, 2)), alpha=x), "alpha",
     (NAN, True, None)),
    (lambda x: operators.blend(ones(2, 2), ones(2, 2), x), "gate", (NAN, True, -0.1, None)),
    (lambda x: operators.gated_mix(X, X[..., 0], X[..., 0], 1.0, X[..., 0] / 2, x), "gate",
     (NAN, True, 1.5)),
    (lambda x: operators.geodesic(torch.eye(2), K, x), "gate", (NAN, True, None)),
    (lambda x: operators.rms_linear(X, ones(3, 5), x), "eps", (-1.0, NAN, True)),
    (lambda x: operators.stream_generate(X, ones(3, 20), x), "eps", (-1.0, NAN, True)),
    (lambda x: operators.stream_join(X, ones(4, 4), ones(4), ones(5), ones(3, 20), x), "eps",
     (-1.0, NAN, True)),
    (lambda x: operators.hyper_join(X, MAPS, x), "eps", (-1.0, NAN, True)),
    (lambda x: operators.hyper_join(X, MAPS, 1e-5, x), "tanh", ("no", 1, None)),
    *((lambda x, name=name: operators.attend(X, ones(5), Attention(EPS, **{name: x})), name,
       ("no", 1, None)) for name in ("scaled", "summed", "normed")),
]


@pytest.mark.parametrize("mode", ["always", "never"])
@pytest.mark.parametrize("call, name, values", NUMBERS)
def test_a_number_or_a_switch_of_another_kind_is_named(call, name, values, mode):
    for value in values:
        with kernels.use(mode), pytest.raises(ValueError, match=f"^{name} must "):
            call(value)
