import math

import pytest
import torch
from torch.testing import assert_close

from geolab.tasks import Denoising

TASKS = [Denoising(), Denoising(schedule="linear"), Denoising(modes=1),
         Denoising(modes=2, spread=0.3), Denoising(modes=7)]


def points(count=50):
    return torch.randn(count, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_inputs_are_noisy_points_near_the_modes_with_their_times():
    task = Denoising(train=5000)
    inputs, targets = task.sample("train")
    a, s = task.scales(inputs[:, 2:].double())
    noise = (inputs[:, :2].double() - a * targets) / s
    assert noise.mean(0).abs().max() < 0.06
    assert (noise.T @ noise / 5000 - torch.eye(2)).abs().max() < 0.1
    nearest = (targets[:, None] - task.means()).norm(dim=-1).min(1).values
    assert nearest.square().mean() == pytest.approx(2 * task.spread**2, rel=0.06)


@pytest.mark.parametrize("schedule, power", [("cosine", 2), ("linear", 1)])
def test_a_schedule_ends_in_noise(schedule, power):
    a, s = Denoising(schedule=schedule).scales(torch.linspace(0, 1, 21, dtype=torch.float64))
    assert_close(a**power + s**power, torch.ones_like(a))
    assert a[[0, -1]].tolist() == pytest.approx([1, 0], abs=1e-7)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("t", [0.1, 0.5, 0.9])
def test_the_posterior_mean_is_the_score_of_the_density(task, t):
    """Tweedie: a E[x_0 | x] = x + s² ∇ ln p_t(x)."""
    x = points().requires_grad_()
    a, s = task.scales(t)
    covariance = ((a * task.spread) ** 2 + s**2) * torch.eye(2).double()
    modes = torch.distributions.MultivariateNormal(a * task.means(), covariance)
    density = torch.logsumexp(modes.log_prob(x[:, None]), dim=1)
    score, = torch.autograd.grad(density.sum(), x)
    assert_close(a * task.posterior_mean(x, t), x + s**2 * score, rtol=1e-9, atol=1e-9)


def test_the_posterior_mean_takes_a_time_for_each_point_and_moves_none_without_noise():
    task, x = Denoising(), points(5)
    t = torch.linspace(0.1, 0.9, 5, dtype=torch.float64)[:, None]
    one_by_one = [task.posterior_mean(x[i:i + 1], t[i].item()) for i in range(5)]
    assert_close(task.posterior_mean(x, t), torch.cat(one_by_one))
    for times in ((0.0,), (0.6, 0.6)):
        assert_close(task.posterior_mean(x, *times), x, rtol=0, atol=1e-12)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_with_one_mode_the_flow_is_a_scaling_about_the_mean(schedule):
    """x_s = a_s m + (σ_s/σ_t)(x_t − a_t m): the flow of a Gaussian."""
    task, x = Denoising(modes=1, spread=0.5, schedule=schedule), points()
    (a_t, s_t), (a_s, s_s) = task.scales(0.9), task.scales(0.1)
    ratio = ((0.25 * a_s**2 + s_s**2) / (0.25 * a_t**2 + s_t**2)).sqrt()
    expected = a_s * task.means() + ratio * (x - a_t * task.means())
    assert_close(task.flow(x, 0.9, 0.1, 1000), expected, rtol=0, atol=2e-3)
    assert torch.isfinite(task.flow(x, 0.0, 1.0, 10)).all()  # it starts without noise too


def test_a_draw_has_the_posterior_mean_and_its_generator_decides_it():
    task, x = Denoising(), points(4).repeat_interleave(50_000, 0)
    draws, again = (task.sampler(x, 0.7, 0.3, torch.Generator().manual_seed(0)).view(4, -1, 2)
                    for _ in range(2))
    error = (draws.mean(1) - task.posterior_mean(points(4), 0.7, 0.3)) / draws.std(1)
    assert (error * math.sqrt(50_000)).abs().max() < 4.5 and torch.equal(draws, again)
