import pytest
import torch

from geolab._checks import require_square, require_unit, require_width


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_normalised_vector_passes_in_its_own_precision(dtype):
    h = torch.randn(50, 300, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    require_unit((h / h.norm(dim=-1, keepdim=True)).to(dtype))


def test_float64_is_held_to_more_than_float32():
    direction = torch.tensor([1 + 1e-6, 0.0], dtype=torch.float64)
    require_unit(direction.float())
    with pytest.raises(ValueError, match="unit length"):
        require_unit(direction)


def test_the_message_names_the_argument_and_the_worst_length():
    direction = torch.eye(3, dtype=torch.float64)
    direction[1] *= 1.25
    with pytest.raises(ValueError, match=r"^axis must have unit length along its last axis, got length 1\.25;"):
        require_unit(direction, "axis")


@pytest.mark.parametrize("bad", [0.0, float("nan"), float("inf")])
def test_zero_and_non_finite_directions_are_refused(bad):
    with pytest.raises(ValueError, match="unit length"):
        require_unit(torch.tensor([[1.0, 0.0], [bad, 0.0]]))


def test_no_vectors_at_all_pass():
    require_unit(torch.zeros(0, 4))


def test_width():
    require_width("x", torch.zeros(5, 3), 3)
    with pytest.raises(ValueError, match=r"^x must have 4 features along its last axis, got shape \(5, 3\)$"):
        require_width("x", torch.zeros(5, 3), 4)


def test_square():
    require_square("m", torch.zeros(2, 3, 3))
    require_square("m", torch.zeros(3, 3), 3)
    with pytest.raises(ValueError, match=r"^m must be n × n along its last two axes, got shape \(3, 2\)$"):
        require_square("m", torch.zeros(3, 2))
    with pytest.raises(ValueError, match=r"^m must be 4 × 4 along its last two axes, got shape \(2, 3, 3\)$"):
        require_square("m", torch.zeros(2, 3, 3), 4)
    with pytest.raises(ValueError, match=r"got shape \(3,\)$"):
        require_square("m", torch.zeros(3))
