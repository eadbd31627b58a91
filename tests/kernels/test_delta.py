from functools import partial

import pytest
import torch
from shared_kernels import check, normal, with_gradients

from geolab import kernels, operators
from geolab.kernels import delta

EPS = 0.1  # large enough to make a difference


def update(lead, d, channels, device):
    """X, h, v and β, with a vector state where channels is 0. No h has unit length."""
    inner = (channels,) if channels else ()
    x, h, v, beta = (normal(*lead, *own, seed=seed, device=device) for seed, own in enumerate(
        [(d, *inner), (d,), inner, ()], start=1))
    return x, 0.3 * h, v, 1.3 * beta


def check_update(inputs, **options):
    check(partial(delta.delta_update, **options), partial(operators.delta_update, **options),
          *inputs)


@pytest.mark.parametrize("options", [{}, dict(eps=EPS), dict(erase=False),
                                     dict(erase=False, eps=EPS), dict(eps=0.0)], ids=str)
@pytest.mark.parametrize("d, channels", [(2, 0), (200, 2), (64, 3), (7, 5), (40, 8),
                                         (3, 300)])
def test_with_and_without_erasure_and_normalisation(device, d, channels, options):
    check_update(update((2, 9), d, channels, device), **options)


@pytest.mark.parametrize("channels", [0, 4])
def test_numbers_stand_for_value_and_rate(device, channels):
    x, h, _, _ = update((3, 37), 50, channels, device)
    for numbers in (0.0, 2.0), (-0.5, 1):
        check(lambda x, h, numbers=numbers: delta.delta_update(x, h, *numbers, eps=EPS),
              lambda x, h, numbers=numbers: operators.delta_update(x, h, *numbers, eps=EPS), x, h)


def test_state_and_direction_broadcast(device):
    x, h, v, beta = update((1, 5), 50, 0, device)
    check_update((x, 0.3 * normal(2, 1, 50, device=device), v, beta))
    x, h, v, beta = update((3, 37), 50, 4, device)
    check_update((x, h[:1], v[..., :1], beta))


def test_with_a_guard_a_vanishing_direction_gives_finite_numbers(device):
    x, h, v, beta = update((5,), 50, 4, device)
    results = with_gradients(partial(delta.delta_update, eps=1e-5), (x, 0 * h, v, beta), seed=0)
    assert all(result.isfinite().all() for result in results)
    assert torch.equal(results[0], x)


# ---------------------------------------------------------------- with v and β from linear maps

def layer(N, d, channels, device):
    """X, h, u and c, then V, b, w and b′; with a vector state where channels is 0."""
    inner, d_v = ((channels,), channels) if channels else ((), 1)
    shapes = [(N, d, *inner), (N, d), (N, d), (N, d), (d_v, d), (d_v,), (1, d), (1,)]
    return [normal(*own, seed=seed, device=device) * (d**-0.5 if 3 < seed < 9 else 1)
            for seed, own in enumerate(shapes)]


def of_layer(*given):
    return operators.delta_layer(*given, EPS, height=3.0)


@pytest.mark.parametrize("N, d, channels", [(37, 50, 3), (5, 1, 2), (11, 700, 0), (2200, 16, 2)])
def test_the_maps_of_value_and_rate_are_part_of_the_layer(device, N, d, channels):
    with kernels.use("always"):
        # their gradients are sums over all tokens, of terms of both signs
        check(of_layer, of_layer, *layer(N, d, channels, device), tolerance=2e-5)


def test_maps_that_registers_do_not_hold_go_to_the_operator(device, monkeypatch):
    monkeypatch.setattr(kernels, "MOST_HELD", (8, 8))
    monkeypatch.setitem(kernels.TWINS, "delta_layer", None)
    with kernels.use("always"):
        check(of_layer, of_layer, *layer(7, 8, 2, device))


def test_a_layer_has_no_second_derivatives_and_says_so(device):
    x, *others = (t.requires_grad_() for t in layer(3, 8, 2, device))
    with kernels.use("always"):
        y = of_layer(x, *others)
    with pytest.raises(RuntimeError, match="has no second derivatives"):
        torch.autograd.grad(y.sum(), others[1], create_graph=True)
