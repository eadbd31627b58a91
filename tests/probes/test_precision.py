"""A probe measures the same in every dtype, and whether gradients are enabled or not."""

import pytest
import torch
from test_every_probe import CASES, OPTIONAL, small_model
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves

from geolab import probes

TURN = torch.linalg.qr(torch.randn(64, 64, generator=torch.Generator().manual_seed(0)))[0].double()


def turn(x):
    return x + 0.3 * (x @ TURN.to(x.dtype)).relu()


def swap(x):
    return x.flip(-1) * 0.8


# measures that are ratios, of a state and the step of a map
RATIOS = {
    "commutator_energy": lambda x: probes.commutator_energy(turn, swap, x),
    "asymmetry": lambda x: probes.asymmetry(turn, swap, x),
    "commutator_factors": lambda x: torch.stack(probes.commutator_factors(turn, swap, x)),
    "order_sensitivity": lambda x: probes.order_sensitivity({"a": turn, "b": swap}, x),
    "share_along": lambda x: probes.share_along(x, turn(x) - x),
    "delta_rate": lambda x: probes.delta_rate(x, -0.5 * x),
    "delta_rate, along k": lambda x: probes.delta_rate(x, -0.5 * x, x.sign()),
    "dirichlet_energy": probes.dirichlet_energy,
    "effective_rank": probes.effective_rank,
}


@pytest.mark.parametrize("name", RATIOS)
def test_a_ratio_of_a_half_precision_state_is_that_of_the_same_numbers(name):
    """The sums of squares of a long state leave the range of float16."""
    x = 30 * torch.randn(2, 50, 64, dtype=torch.float64)
    for dtype, tolerance in ((torch.float16, 5e-3), (torch.bfloat16, 4e-2)):
        half = x.to(dtype)
        found, wanted = RATIOS[name](half).double(), RATIOS[name](half.double())
        assert (found - wanted).norm() <= tolerance * wanted.norm()


@pytest.mark.parametrize("probe", sorted({*CASES} - {*OPTIONAL, "gradient_norms"}))
def test_a_probe_measures_the_same_without_gradients(probe):
    model, x = small_model("mhc")
    wanted = tree_leaves(CASES[probe](model, x))
    with torch.no_grad():
        found = tree_leaves(CASES[probe](model, x))
    for ours, theirs in zip(found, wanted, strict=True):
        assert_close(torch.as_tensor(ours), torch.as_tensor(theirs))


def test_the_spectrum_of_a_complex_matrix_is_its_own():
    matrix = torch.randn(3, 4, 4, dtype=torch.complex64)
    found, wide = probes.spectrum(matrix), matrix.to(torch.complex128)
    assert_close(found.determinant, torch.linalg.det(wide))
    assert_close(found.singular_values, torch.linalg.svdvals(wide))
    assert_close(found.eigenvalues.prod(-1), found.determinant)
    turned = wide * 1j  # the same lengths
    assert_close(probes.effective_rank(turned), probes.effective_rank(wide))
    assert_close(probes.stream_consensus(turned), probes.stream_consensus(wide))


def test_the_length_of_a_state_in_half_precision_does_not_overflow():
    long = torch.full((1, 512), 6e3, dtype=torch.float16)
    assert probes.norm_by_depth([long]).item() == pytest.approx(6e3 * 512**0.5, rel=1e-5)
