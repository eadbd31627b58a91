"""The read of gated streams."""

from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F
from shared_kernels import check, normal
from test_every_kernel import EVERY, given
from test_joined import HALF, interpreted

from benchmarks.traffic import traffic
from geolab import kernels, operators
from geolab.kernels import gated_read

NAMES = ("_normalise", "_read", "_read_backward", "_normalise_backward")
# a kernel, and the place of an argument that a mutant takes for zeros
MUTANTS = [("_normalise", 1), ("_read", 1), ("_read_backward", 1), ("_read_backward", 2),
           *(("_normalise_backward", place) for place in range(5))]


def require(inputs, function=EVERY["gated_read"].function):
    with kernels.use("always"):
        check(function, function, *inputs)


@pytest.mark.parametrize("n, lead, d", [(1, (3,), 3), (2, (0,), 24), (3, (37,), 130),
                                        (8, (1,), 50), (4, (70,), 9)])
def test_any_number_of_streams_tokens_and_features(device, n, lead, d):
    require(given("gated_read", lead, device, n=n, d=d))


def test_logits_are_made_of_what_is_normed(device):
    def read(x, weight, down, up):
        return operators.gated_read(
            x, weight, lambda normed: F.linear(F.silu(F.linear(normed, down)), up), 1e-5)

    require([normal(3, 5, 4, 24, device=device), normal(4, 24, seed=1, device=device),
             normal(6, 96, seed=2, device=device) / 9, normal(96, 6, seed=3, device=device)], read)


def test_one_weight_serves_all_streams(device):
    x, weight, logits = given("gated_read", (5,), device)
    require([x, weight[0], logits])


class Blind:
    """A kernel that takes one of its arguments for zeros."""

    def __init__(self, kernel, place):
        self.kernel, self.place = kernel, place

    def __getitem__(self, grid):
        def run(*args, **options):
            changed = [torch.zeros_like(arg) if place == self.place else arg
                       for place, arg in enumerate(args)]
            self.kernel[grid](*changed, **options)

        return run


@pytest.mark.parametrize("name, place", MUTANTS)
def test_a_wrong_kernel_is_noticed(device, name, place):
    with (patch.object(gated_read, name, Blind(getattr(gated_read, name), place)),
          pytest.raises(AssertionError, match="relative error")):
        require(given("gated_read", (7,), device, d=24))


@interpreted
@pytest.mark.parametrize("n", [2, 4])
def test_it_moves_4n_plus_1_and_7n_plus_2_vectors(n):
    moved, N = [], 40
    for d in (64, 192):
        leaves = [t.requires_grad_() for t in given("gated_read", (N,), "cpu", HALF, n, d)]
        with kernels.use("always"):
            with traffic() as there:
                outputs = EVERY["gated_read"].function(*leaves)
            seeds = [torch.ones_like(y) for y in outputs]
            with traffic() as back:
                torch.autograd.grad(outputs, leaves, seeds)
        assert there.launches == back.launches == 2
        # w is read, and its gradient is written
        moved.append((there.distinct - 4 * n * d, back.distinct - 8 * n * d))
    assert [(b - a) / (128 * 2 * N) for a, b in zip(*moved, strict=True)] == [4 * n + 1, 7 * n + 2]
