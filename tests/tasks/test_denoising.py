import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from geolab.tasks import Denoising

TASKS = [Denoising(), Denoising(schedule="linear"), Denoising(modes=1),
         Denoising(modes=2, spread=0.3), Denoising(modes=7)]


def points(count=50, seed=0):
    return torch.randn(count, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def density(task, x, t):
    """(N,): log p_t(x) by its definition, up to a constant."""
    a, s = task.scales(t)
    covariance = ((a * task.spread) ** 2 + s**2) * torch.eye(2).double()
    mixture = torch.distributions.MultivariateNormal(a * task.means(), covariance)
    return torch.logsumexp(mixture.log_prob(x[:, None]), dim=1)


def test_inputs_are_noisy_points_with_their_times():
    task = Denoising(train=5000)
    inputs, targets = task.sample("train")
    assert inputs.shape == (5000, 3) and targets.shape == (5000, 2)
    x, t = inputs[:, :2].double(), inputs[:, 2:].double()
    a, s = task.scales(t)
    noise = (x - a * targets) / s
    assert t.min() >= 0 and t.max() < task.end and abs(t.mean() - task.end / 2) < 0.02
    assert noise.mean(0).abs().max() < 0.06
    assert (noise.T @ noise / 5000 - torch.eye(2)).abs().max() < 0.1
    nearest = (targets[:, None] - task.means()).norm(dim=-1).min(1).values
    assert nearest.square().mean() == pytest.approx(2 * task.spread**2, rel=0.06)


@given(st.floats(0, 1))
def test_schedules_end_in_noise(t):
    a, s = Denoising().scales(t)
    assert a**2 + s**2 == pytest.approx(1)
    assert sum(Denoising(schedule="linear").scales(t)) == pytest.approx(1)
    for schedule in ("cosine", "linear"):
        a, _ = Denoising(schedule=schedule).scales(torch.tensor([0.0, 1.0]))
        assert a.tolist() == pytest.approx([1, 0], abs=1e-7)


class TestPosteriorMean:
    @pytest.mark.parametrize("task", TASKS)
    @pytest.mark.parametrize("t", [0.1, 0.5, 0.9])
    def test_it_is_the_score_of_the_density(self, task, t):
        """Tweedie: a E[x_0 | x] = x + s² ∇ ln p_t(x)."""
        x = points().requires_grad_()
        score, = torch.autograd.grad(density(task, x, t).sum(), x)
        a, s = task.scales(t)
        assert_close(a * task.posterior_mean(x, t), x + s**2 * score, rtol=1e-9, atol=1e-9)

    @pytest.mark.parametrize("task", TASKS)
    def test_nothing_is_taken_off_without_noise(self, task):
        x = points()
        assert_close(task.posterior_mean(x, 0.0), x, rtol=0, atol=1e-12)
        assert_close(task.posterior_mean(x, 0.6, 0.6), x, rtol=0, atol=1e-12)

    def test_a_time_for_each_point(self):
        x, t = points(5), torch.linspace(0.1, 0.9, 5, dtype=torch.float64)[:, None]
        together = Denoising().posterior_mean(x, t)
        one_by_one = [Denoising().posterior_mean(x[i:i + 1], t[i].item()) for i in range(5)]
        assert_close(together, torch.cat(one_by_one))


@pytest.mark.parametrize("task", TASKS)
def test_the_floor_is_what_the_posterior_mean_scores(task):
    task = Denoising(task.modes, task.radius, task.spread, task.schedule, train=100_000)
    inputs, targets = (tensor.double() for tensor in task.sample("train"))
    losses = (task.posterior_mean(inputs[:, :2], inputs[:, 2:]) - targets).square().mean(1)
    assert abs(losses.mean() - task.bayes_floor()) < 4 * losses.std() / math.sqrt(100_000)


def test_one_mode_has_the_floor_of_a_gaussian():
    """It is τ² s²/σ², averaged over t.

    With the cosine schedule and τ = 1 it is s², whose mean over [0, e] is ½ − sin(π e)/(2 π e).
    """
    end = 0.8
    expected = 0.5 - math.sin(math.pi * end) / (2 * math.pi * end)
    task = Denoising(modes=1, spread=1.0, end=end)
    assert task.bayes_floor() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("schedule", ["cosine", "linear"])
def test_baselines_are_above_the_floor(schedule):
    task = Denoising(schedule=schedule)
    scores = task.baselines()
    assert task.bayes_floor() < scores["best linear"] < scores["zero"] < scores["x_t / a_t"]
    one = Denoising(modes=1, schedule=schedule)
    inputs, targets = (tensor.double() for tensor in one.sample("validation"))
    assert one.baselines()["best linear"] == pytest.approx(
        one.loss(one.posterior_mean(inputs[:, :2], inputs[:, 2:]), targets).item(), rel=1e-9)


class TestFlow:


    @pytest.mark.parametrize("schedule", ["cosine", "linear"])
    def test_with_one_mode_it_is_a_scaling_about_the_mean(self, schedule):
        """x_s = a_s m + (σ_s/σ_t)(x_t − a_t m): the flow of a Gaussian."""
        task, x = Denoising(modes=1, spread=0.5, schedule=schedule), points()
        (a_t, s_t), (a_s, s_s) = task.scales(0.9), task.scales(0.1)
        ratio = ((0.25 * a_s**2 + s_s**2) / (0.25 * a_t**2 + s_t**2)).sqrt()
        expected = a_s * task.means() + ratio * (x - a_t * task.means())
        assert_close(task.flow(x, 0.9, 0.1, 1000), expected, rtol=0, atol=2e-3)

    def test_it_carries_one_density_to_the_other(self):
        """With two modes the first coordinate flows by itself.

        A monotone flow keeps the share of points to the left.
        """
        task = Denoising(modes=2)

        def left_of(x, t):
            a, s = task.scales(t)
            sigma = ((a * task.spread) ** 2 + s**2).sqrt()
            return torch.special.ndtr((x - a * torch.tensor([[1.0, -1.0]])) / sigma).mean(1)

        line = torch.linspace(-2, 2, 41, dtype=torch.float64)
        x = torch.stack([line, torch.zeros_like(line)], 1)
        there = task.flow(x, 0.9, 0.2, 1000)
        assert_close(left_of(there[:, :1], 0.2), left_of(x[:, :1], 0.9), rtol=0, atol=2e-3)
        assert (there[1:, 0] > there[:-1, 0]).all()

    def test_it_starts_without_noise_too(self):
        assert torch.isfinite(Denoising().flow(points(), 0.0, 1.0, 10)).all()


class TestSampler:
    def test_a_draw_has_the_posterior_mean(self):
        task, x = Denoising(), points(4)
        generator = torch.Generator().manual_seed(0)
        draws = task.sampler(x.repeat_interleave(50_000, 0), 0.7, 0.3, generator).view(4, -1, 2)
        error = (draws.mean(1) - task.posterior_mean(x, 0.7, 0.3)) / draws.std(1)
        error *= math.sqrt(50_000)
        assert error.abs().max() < 4.5


    def test_the_generator_decides_it(self):
        first, again = (Denoising().sampler(points(), 0.9, 0.1, torch.Generator().manual_seed(3))
                        for _ in range(2))
        assert torch.equal(first, again)
