"""JPmHC's exact rotation, between two sublayers."""

from functools import partial
from unittest.mock import patch

import pytest
import torch
import triton
import triton.language as tl
from shared_kernels import check
from test_every_kernel import given
from torch.testing import assert_close

from benchmarks.cases import jpmhc
from geolab import kernels
from geolab.kernels import cayley
from geolab.operators.jpmhc import Turn


def join(alpha):
    return partial(jpmhc.join, turn=Turn(alpha=alpha, exact=True))


def require(device, lead=(7,)):
    """Assert that the kernels give what the operator gives in float64, far from W = 0."""
    with kernels.use("always"):
        check(join(2.0), join(2.0), *given("jpmhc_join", lead, device, d=24), tolerance=4e-5)


@pytest.mark.parametrize("lead", [(7,), (1,), (0,), (1030,)])
def test_it_is_the_closed_form(device, lead):
    require(device, lead)


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 1e3])
def test_it_is_orthogonal_at_every_size(device, alpha):
    with kernels.use("always"):
        *_, made = join(alpha)(*given("jpmhc_join", (37,), device, d=24))
    turned = made[..., :4, :]
    assert_close(turned @ turned.mT, torch.eye(4, device=device).expand_as(turned), rtol=0,
                 atol=2e-6)


ROTATED, BACK = cayley.rotated, cayley.rotated_back


@triton.jit
def backwards(w):
    """The rotation of −W."""
    negative = ()
    for i in tl.static_range(16):
        negative += (-w[i],)
    return ROTATED(negative)


@triton.jit
def straight(S, w):
    """The gradient where W = 0."""
    none = ()
    for i in tl.static_range(16):
        none += (tl.zeros_like(w[i]),)
    return BACK(S, none)


@pytest.mark.parametrize("name, mutant", [("rotated", backwards), ("rotated_back", straight)])
def test_a_wrong_rotation_is_noticed(device, name, mutant):
    with (patch.object(cayley, name, mutant),
          pytest.raises(AssertionError, match="relative error")):
        require(device)


@pytest.mark.parametrize("mode", ["always", "never"])
def test_another_number_of_streams_is_refused(device, mode):
    with (kernels.use(mode),
          pytest.raises(ValueError, match="state must have 4 streams where the turn is exact")):
        join(0.1)(*given("jpmhc_join", (3,), device, n=3))


@pytest.mark.parametrize("wrong", ["yes", 2, None])
def test_exact_is_true_or_false(wrong):
    with pytest.raises(ValueError, match=f"exact must be one of True, False, got {wrong!r}"):
        Turn(exact=wrong)
