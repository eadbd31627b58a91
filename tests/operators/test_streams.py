"""Streams are read, mixed and written to as their sums say, and so is what generates the numbers.
"""

import torch
from hypothesis import given
from hypothesis import strategies as st
from shared import normal
from torch.testing import assert_close

from geolab.operators import rms_linear, stream_mix, stream_mix_write, stream_read


@st.composite
def cases(draw):
    """Streams, weights, a matrix, an update, and their scale.

    The coefficients have all leading axes of the streams, or a last one of size 1, or none.
    """
    lead = draw(st.sampled_from([(), (3,), (2, 3), (2, 0)]))
    fewer = draw(st.sampled_from([lead, (), lead[:-1] + (1,) if lead else ()]))
    n, d, seed = draw(st.integers(1, 5)), draw(st.integers(1, 6)), draw(st.integers(0, 99))
    scale = 10.0 ** draw(st.integers(-6, 6))
    return (scale * normal(*lead, n, d, seed=seed), normal(*fewer, n, seed=seed + 1),
            normal(*fewer, n, n, seed=seed + 2), scale * normal(*lead, d, seed=seed + 3), scale)


@given(cases(), st.sampled_from([torch.float32, torch.float64]))
def test_read_mix_and_write_are_their_sums(case, dtype):
    *tensors, scale = case
    near = dict(rtol=0, atol=20 * scale * torch.finfo(dtype).eps, check_dtype=False)
    x, weights, matrix, update = narrow = [t.to(dtype) for t in tensors]
    wide, a, h, u = (t.double() for t in narrow)
    mixed = torch.einsum("...mn,...nd->...md", h, wide)
    written = a.unsqueeze(-1) * u.unsqueeze(-2)
    assert_close(stream_read(x, weights), torch.einsum("...n,...nd->...d", a, wide), **near)
    assert_close(stream_mix(x, matrix), mixed, **near)
    assert_close(stream_mix_write(x, matrix, weights, update), mixed + written, **near)


def test_inputs_may_be_strided_and_stay_as_they_were():
    strided = (normal(4, 3, 5).transpose(0, 1), normal(3, 4, 4, seed=3).mT, normal(4, 3, seed=1).T,
               normal(5, 3, seed=2).T)
    before = [t.clone(memory_format=torch.contiguous_format) for t in strided]
    assert_close(stream_mix_write(*strided), stream_mix_write(*before), rtol=0, atol=1e-12)
    assert_close(list(strided), before, rtol=0, atol=0)


@given(st.integers(0, 2**16), st.sampled_from([(), (3,), (2, 3)]), st.integers(1, 40),
       st.integers(1, 9))
def test_the_generator_maps_the_normalised_state(seed, lead, features, outputs):
    x, weight = normal(*lead, features, seed=seed), normal(outputs, features, seed=seed + 1)
    normalised = torch.nn.functional.rms_norm(x, (features,), eps=1e-3)
    assert_close(rms_linear(x, weight, 1e-3), normalised @ weight.mT, rtol=1e-12, atol=1e-12)


def test_a_state_of_zeros_generates_zeros_with_finite_gradients():
    x, weight = torch.zeros(2, 6, requires_grad=True), torch.ones(3, 6)
    y = rms_linear(x, weight, 1e-20)
    assert y.count_nonzero() == 0 and torch.autograd.grad(y.sum(), x)[0].isfinite().all()
