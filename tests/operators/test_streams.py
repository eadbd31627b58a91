import torch
from hypothesis import given
from hypothesis import strategies as st
from shared import normal
from torch.testing import assert_close

from geolab.operators import stream_mix, stream_mix_write, stream_read

CLOSE = dict(rtol=0, atol=1e-12)


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
    x, weights, matrix, update, scale = case
    near = dict(rtol=0, atol=20 * scale * torch.finfo(dtype).eps, check_dtype=False)
    x32, w32, m32, u32 = (t.to(dtype) for t in (x, weights, matrix, update))
    wide, weights, matrix, update = (t.double() for t in (x32, w32, m32, u32))
    mixed = torch.einsum("...mn,...nd->...md", matrix, wide)
    written = weights.unsqueeze(-1) * update.unsqueeze(-2)
    assert_close(stream_read(x32, w32), torch.einsum("...n,...nd->...d", weights, wide), **near)
    assert_close(stream_mix(x32, m32), mixed, **near)
    assert_close(stream_mix_write(x32, m32, w32, u32), mixed + written, **near)


def test_inputs_stay_as_they_were():
    given = normal(2, 3, 4), normal(2, 3, 3), normal(2, 3), normal(2, 4)
    before = [t.clone() for t in given]
    stream_mix_write(*given)
    assert_close(list(given), before, rtol=0, atol=0)


def test_strided_inputs_give_the_same():
    strided = (normal(4, 3, 5).transpose(0, 1), normal(3, 4, 4, seed=3).mT, normal(4, 3, seed=1).T,
               normal(5, 3, seed=2).T)
    assert_close(stream_mix_write(*strided), stream_mix_write(*(t.contiguous() for t in strided)),
                 **CLOSE)
