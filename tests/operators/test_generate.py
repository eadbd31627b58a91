import torch
from hypothesis import given
from hypothesis import strategies as st
from shared import normal
from torch.testing import assert_close

from geolab.operators import rms_linear


@given(st.integers(0, 2**16), st.sampled_from([(), (3,), (2, 3)]), st.integers(1, 40),
       st.integers(1, 9))
def test_it_maps_the_normalised_state(seed, lead, features, outputs):
    x, weight = normal(*lead, features, seed=seed), normal(outputs, features, seed=seed + 1)
    normalised = torch.nn.functional.rms_norm(x, (features,), eps=1e-3)
    assert_close(rms_linear(x, weight, 1e-3), normalised @ weight.mT, rtol=1e-12, atol=1e-12)


def test_a_state_of_zeros_gives_zeros_and_finite_gradients():
    x, weight = torch.zeros(2, 6, requires_grad=True), torch.ones(3, 6)
    y = rms_linear(x, weight, 1e-20)
    assert y.count_nonzero() == 0 and torch.autograd.grad(y.sum(), x)[0].isfinite().all()


def test_numbers_of_half_precision_states_are_float32():
    assert rms_linear(normal(4, 8).bfloat16(), normal(3, 8).float(), 1e-6).dtype == torch.float32
