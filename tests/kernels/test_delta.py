import functools

import pytest
import torch
from shared_kernels import check, distance, normal, with_gradients

from geolab import kernels, operators
from geolab.kernels import delta

EPS = 0.1  # large enough to make a difference


def with_options(function, **options):
    return functools.partial(function, **options)


def update(lead, d, channels, device):
    """X, h, v and β, with a vector state where channels is 0. No h has unit length."""
    inner = (channels,) if channels else ()
    x, h, v, beta = (normal(*lead, *own, seed=seed, device=device) for seed, own in enumerate(
        [(d, *inner), (d,), inner, ()], start=1))
    return x, 0.3 * h, v, 1.3 * beta


def check_update(inputs, **options):
    check(with_options(delta.delta_update, **options),
          with_options(operators.delta_update, **options), *inputs)


# ---------------------------------------------------------------- the delta update

@pytest.mark.parametrize("options", [{}, dict(eps=EPS), dict(erase=False),
                                     dict(erase=False, eps=EPS), dict(eps=0.0)], ids=str)
@pytest.mark.parametrize("d, channels", [(2, 0), (200, 2), (64, 3), (7, 5), (40, 8), (3, 300)])
def test_with_and_without_erasure_and_normalisation(device, d, channels, options):
    check_update(update((2, 9), d, channels, device), **options)


@pytest.mark.parametrize("d, channels", [(1, 0), (1100, 0), (768, 1), (20000, 0), (4100, 4),
                                         (2300, 8)])
def test_tokens_of_one_number_and_of_several_tiles(device, d, channels):
    check_update(update((2,), d, channels, device), eps=EPS)


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
    results = with_gradients(with_options(delta.delta_update, eps=1e-5), (x, 0 * h, v, beta),
                             seed=0)
    assert all(result.isfinite().all() for result in results)
    assert torch.equal(results[0], x)


def test_under_autocast_the_update_keeps_the_dtype_of_the_state(device):
    x, h, v, beta = update((3, 37), 50, 4, device)
    with kernels.use("always"), torch.autocast(device, torch.bfloat16):
        inside = operators.delta_update(x, h.bfloat16(), v.bfloat16(), beta, eps=EPS)
    assert inside.dtype == x.dtype
    assert torch.equal(inside, delta.delta_update(x, h.bfloat16().float(), v.bfloat16().float(),
                                                  beta, eps=EPS))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_mgts_update_of_several_tiles(device, dtype):
    # The gradient with respect to α is a sum of numbers of both signs. With these seeds it doesn't
    # cancel.
    vectors = (normal(37, 1100, seed=20 + i, dtype=dtype, device=device) for i in range(3))
    check(delta.diagonal_update, operators.diagonal_update, *vectors,
          torch.tensor([0.7], device=device))


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


# ---------------------------------------------------------------- far addresses

@pytest.mark.gpu  # the interpreter would take hours
@pytest.mark.parametrize("device", ["cuda"], indirect=True)
def test_states_past_two_to_the_31_bytes(device):
    tokens, d = 300_000, 4096  # 2.5e9 bytes in bfloat16
    x = torch.zeros(tokens, d, dtype=torch.bfloat16, device=device)
    x[-2:] = normal(2, d, dtype=x.dtype, device=device)
    h, beta = x + 1, torch.ones(tokens, device=device)
    y = delta.delta_update(x, h, 0.5, beta, eps=EPS)
    assert distance(y[-2:], operators.delta_update(x[-2:].double(), h[-2:].double(), 0.5, 1.0,
                                                   eps=EPS)) < 4e-3
    y = delta.diagonal_update(x, h, h, beta[0])
    wide = (t.double() for t in (x[-2:], h[-2:], h[-2:], beta[0]))
    assert distance(y[-2:], operators.diagonal_update(*wide)) < 4e-3
