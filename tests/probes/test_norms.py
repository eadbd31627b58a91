import pytest
import torch
from torch import nn
from torch.testing import assert_close

from geolab.models import ContinuousModel, Transformer, TransformerConfig
from geolab.probes import norm_by_depth, norm_drift
from geolab.probes.norms import norm_by_position, roll_out


class Map(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x)


def test_norm_by_depth_is_the_mean_length():
    first = torch.tensor([[[3.0, 4.0], [0.0, 1.0]]], dtype=torch.float64)
    wide = torch.full((1, 2, 3, 4), 0.5, dtype=torch.float64, requires_grad=True)
    lengths = norm_by_depth([first, wide, 2 * first])
    assert_close(lengths, torch.tensor([3.0, 1.0, 6.0], dtype=torch.float64))
    assert not lengths.requires_grad


def test_the_identity_does_not_drift():
    assert norm_drift(nn.Identity(), dim=16) < 1e-6


@pytest.mark.parametrize("scale", [0.0, 0.5, -1.0, 3.0])
def test_a_scaling_drifts_by_its_excess(scale):
    assert norm_drift(Map(lambda x: scale * x), dim=16) == pytest.approx(abs(abs(scale) - 1), abs=1e-6)


def test_the_mean_over_sequences_comes_before_the_absolute_value():
    def longer_and_shorter(x):  # by 1/2, in turn: no drift on average
        return x * torch.tensor([0.5, 1.5]).repeat(len(x) // 2).view(-1, 1, 1)

    assert norm_drift(Map(longer_and_shorter), dim=8, sequences=10) < 1e-6


def test_positions_do_not_cancel():
    def longer_and_shorter(x):
        return x * torch.tensor([0.5, 1.5]).repeat(x.shape[1] // 2).view(1, -1, 1)

    assert norm_drift(Map(longer_and_shorter), dim=8, length=10) == pytest.approx(0.5, abs=1e-6)


def test_a_running_mean_must_shrink():
    # the mean of t independent unit vectors has a length of about 1/√t in many dimensions
    mean = Map(lambda x: x.cumsum(1) / torch.arange(1, x.shape[1] + 1).view(-1, 1))
    expected = (1 - torch.arange(1, 51).double() ** -0.5).mean().item()
    assert norm_drift(mean, dim=256, length=50) == pytest.approx(expected, abs=0.01)


def test_the_seed_decides():
    torch.manual_seed(0)
    model = nn.Linear(8, 8)
    drift = norm_drift(model, dim=8, seed=1)
    torch.manual_seed(99)
    assert norm_drift(model, dim=8, seed=1) == drift != norm_drift(model, dim=8, seed=2)


# ---------------------------------------------------------------- by position

def test_norms_by_position_are_relative_to_the_inputs():
    def longer(x):
        return x * torch.arange(1, x.shape[1] + 1).view(-1, 1)

    assert_close(norm_by_position(Map(longer), dim=8, length=5), torch.arange(1.0, 6.0))


def test_the_drift_is_their_mean_distance_from_one():
    torch.manual_seed(0)
    model = nn.Linear(8, 8)
    lengths = norm_by_position(model, dim=8, length=9, sequences=7, seed=3)
    assert lengths.shape == (9,) and not lengths.requires_grad
    assert norm_drift(model, dim=8, length=9, sequences=7, seed=3) == (lengths - 1).abs().mean().item()


def test_at_position_100_a_running_mean_has_a_tenth_of_the_length():
    mean = Map(lambda x: x.cumsum(1) / torch.arange(1, x.shape[1] + 1).view(-1, 1))
    assert norm_by_position(mean, dim=256)[99].item() == pytest.approx(0.1, rel=0.02)


# ---------------------------------------------------------------- a model that reads itself

def test_a_roll_out_is_the_powers_of_a_linear_map():
    torch.manual_seed(0)
    model, start = nn.Linear(3, 3, bias=False).double(), torch.randn(2, 4, 3, dtype=torch.float64)
    expected = [start[:, -1] @ torch.linalg.matrix_power(model.weight.T, n) for n in range(1, 6)]
    found = roll_out(model, start, steps=5)
    assert_close(found, torch.stack(expected, 1))
    assert not found.requires_grad


def test_a_rotation_keeps_the_length_for_as_long_as_it_runs():
    rotation = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))[0]
    start = nn.functional.normalize(torch.randn(5, 1, 6, dtype=torch.float64), dim=-1)
    lengths = roll_out(Map(lambda x: x @ rotation), start, steps=300).norm(dim=-1)
    assert_close(lengths, torch.ones_like(lengths), rtol=0, atol=1e-12)


@pytest.mark.parametrize("window, seen", [(None, [3, 4, 5, 6, 7]), (5, [3, 4, 5, 5, 5]), (1, [1, 1, 1, 1, 1])])
def test_the_window_bounds_what_the_model_reads(window, seen):
    lengths = []

    def last(x):
        lengths.append(x.shape[1])
        return x

    assert roll_out(Map(last), torch.zeros(2, 3, 4), steps=5, window=window).shape == (2, 5, 4)
    assert lengths == seen


def test_the_window_holds_the_last_vectors():
    start = torch.tensor([1.0, 2.0, 4.0]).view(1, 3, 1)
    total = Map(lambda x: x.cumsum(1))
    assert roll_out(total, start, steps=2).flatten().tolist() == [7, 14]
    assert roll_out(total, start, steps=3, window=2).flatten().tolist() == [6, 10, 16]


def test_with_learned_positions_a_window_lets_it_run_on():
    torch.manual_seed(0)
    config = TransformerConfig.benchmark(width=8, layers=1, heads=2, max_length=6)
    model = ContinuousModel(Transformer(config), 3)
    start = torch.randn(2, 4, 3)
    assert roll_out(model, start, steps=20, window=6).isfinite().all()
    with pytest.raises(ValueError, match="sequence of 7 positions is longer than max_length = 6"):
        roll_out(model, start, steps=20)


@pytest.mark.parametrize("wrong, message", [({"steps": 0}, "steps must be at least 1, got 0"),
                                            ({"steps": 2, "window": 0}, "window must be at least 1, got 0")])
def test_a_roll_out_of_nothing_is_refused(wrong, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        roll_out(nn.Identity(), torch.zeros(1, 1, 2), **wrong)
