"""A write and a read whose weights don't depend on the state."""

from unittest.mock import patch

import pytest
import torch
from shared_kernels import check, normal
from test_every_kernel import EVERY, given
from test_joined import interpreted, vectors

from benchmarks.cases.write_read import run
from geolab import kernels
from geolab.kernels import streams, write_read

NAMES = "stream_write_read", "stream_write_read, normed"


def require(name, inputs, tolerance=2e-5):
    with kernels.use("always"):
        check(EVERY[name].function, EVERY[name].function, *inputs, tolerance=tolerance)


SIZES = [(2, 24, 7), (3, 130, 70), (8, 24, 0), (8, 40, 1), (5, 1100, 3)]


# of one stream the norm takes away what a does
@pytest.mark.parametrize("name, n, d, tokens", [(NAMES[0], 1, 1, 7), *(
    (name, *size) for name in NAMES for size in SIZES)])
def test_any_number_of_streams_features_and_tokens(device, name, n, d, tokens):
    require(name, given(name, (tokens,), device, n=n, d=d))


@pytest.mark.parametrize("of_given, of_read", [
    ((3, 5), (3, 5)), ((3, 1), ()), ((), (3, 5)), ((3, 5), (3, 1)), ((1, 5), (5,))], ids=str)
def test_tokens_may_share_coefficients_each_in_its_own_way(device, of_given, of_read):
    shapes = (3, 5, 4, 20), (*of_given, 5, 4), (3, 5, 20), (*of_read, 4)
    require(NAMES[0], [normal(*shape, seed=i, device=device) for i, shape in enumerate(shapes)])


def deaf(grad, x, c, h, of_x, of_c, of_h, read):
    """No gradient through what is read."""
    WRITE_BACKWARD(grad, x, c, h, of_x, of_c, of_h, (torch.zeros_like(read[0]), read[1]))


def shifted(grad, x, c, h, of_x, of_c, of_h, read):
    """The a of a neighbouring stream."""
    WRITE_BACKWARD(grad, x, c, h, of_x, of_c, of_h, (read[0], read[1].roll(1, -1)))


WRITE_BACKWARD, READ_BACKWARD = write_read.write_backward, streams.read_backward


def of_the_first(grad, x, a, span, of_a):
    """The gradient of a in all streams as in the first."""
    READ_BACKWARD(grad, x[..., :1, :].expand(x.shape).contiguous(), a, span, of_a)


@pytest.mark.parametrize("place, name, mutant", [
    (write_read, "write_backward", deaf), (write_read, "write_backward", shifted),
    (streams, "read_backward", of_the_first)])
def test_a_wrong_kernel_is_noticed(device, place, name, mutant):
    inputs = given(NAMES[0], (7,), device)
    with patch.object(place, name, mutant), pytest.raises(AssertionError, match="relative error"):
        require(NAMES[0], inputs)


@pytest.mark.parametrize("mode", ["always", "never"])
@pytest.mark.parametrize("place, message", [
    (1, "matrix must be 4 × 4|weights must have 4"), (2, "update must have 50 features"),
    (3, "weights must have 4 features"), (4, "norm must have 50 features")])
def test_a_shape_that_does_not_fit_is_refused_alike(device, mode, place, message):
    inputs = given(NAMES[1], (3,), device)
    inputs[place] = inputs[place][..., :-1]
    with kernels.use(mode), pytest.raises(ValueError, match=message):
        EVERY[NAMES[1]].function(*inputs)


@interpreted
@pytest.mark.parametrize("n", [2, 4])
def test_it_moves_2n_plus_2_and_4n_plus_4_vectors(n):
    def passes(d, N, dtype):
        leaves = [t.requires_grad_() for t in given(NAMES[0], (N,), "cpu", dtype, n, d)]
        return run(*leaves), leaves

    # `vectors` leaves out a generator's W, which isn't there
    outputs, power = n * (n + 2), 1 << (n - 1).bit_length()
    packed = 4 * max(16, 1 << (outputs - 1).bit_length()) * power
    absent = (4 * outputs * n + 2 * packed, 8 * outputs * n)
    moved = [found + gone / (2 * 40) for found, gone in
             zip(vectors(passes, n), absent, strict=True)]
    assert moved == pytest.approx([2 * n + 2, 4 * n + 4], abs=1e-9)
