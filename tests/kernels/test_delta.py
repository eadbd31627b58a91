import functools

import pytest
import torch
from shared_kernels import check, distance, normal, with_gradients

from geolab import kernels, operators
from geolab.kernels import delta

LEADS = {"one token": (1,), "a tail": (3, 37), "no token": (0,), "no batch axis": ()}
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
EPS = 0.1  # large enough to make a difference


def with_options(function, **options):
    return functools.partial(function, **options)


def update(lead, d, channels, device, dtype=torch.float32, value=None, beta=None):
    """X, h, v and β, with a vector state where channels is 0.

    `value` and `beta` are leading axes of v and β, if they differ from those of X.
    """
    inner = (channels,) if channels else ()
    x = normal(*lead, d, *inner, seed=1, dtype=dtype, device=device)
    # not of unit length
    h = 0.3 * normal(*lead, d, seed=2, dtype=dtype, device=device)
    v = normal(*(lead if value is None else value), *inner, seed=3, device=device)
    return x, h, v, 1.3 * normal(*(lead if beta is None else beta), seed=4, device=device)


def check_update(inputs, tolerance=None, **options):
    check(with_options(delta.delta_update, **options),
          with_options(operators.delta_update, **options), *inputs, tolerance=tolerance)


# ---------------------------------------------------------------- the delta update

@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", [0, 4])
@pytest.mark.parametrize("lead", LEADS.values(), ids=LEADS)
def test_the_update_is_the_operator(device, lead, channels, dtype):
    check_update(update(lead, 50, channels, device, dtype), eps=EPS)


@pytest.mark.parametrize("options", [{}, dict(eps=EPS), dict(erase=False),
                                     dict(erase=False, eps=EPS), dict(eps=0.0)], ids=str)
@pytest.mark.parametrize("d, channels", [(2, 0), (200, 2), (64, 3), (7, 5), (40, 8), (3, 300)])
def test_with_and_without_erasure_and_normalisation(device, d, channels, options):
    check_update(update((2, 9), d, channels, device), **options)


@pytest.mark.parametrize("d, channels", [(1, 0), (1100, 0), (768, 1), (20000, 0), (4100, 4),
                                         (2300, 8)])
def test_tokens_of_one_number_and_of_several_tiles(device, d, channels):
    check_update(update((2,), d, channels, device), eps=EPS)


@pytest.mark.parametrize("value, beta", [((3, 37), ()), ((), (3, 1)), ((37,), (1, 37)),
                                         ((3, 1), (37,))])
@pytest.mark.parametrize("channels", [0, 4])
def test_tokens_may_share_value_and_rate(device, channels, value, beta):
    inputs = update((3, 37), 50, channels, device, value=value, beta=beta)
    # a sum over tokens may be small compared with its terms
    check_update(inputs, tolerance=1e-4, eps=EPS)


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


def test_strided_states_are_read_as_they_are(device):
    x, h, v, beta = update((6, 7), 48, 4, device)
    check_update((x.transpose(0, 1), h.transpose(0, 1), v.transpose(0, 1), beta.T))
    check_update((x[:, ::2], h[:, ::2], v[:, ::2], beta[:, ::2]), eps=EPS)
    check_update((x.transpose(-1, -2).contiguous().transpose(-1, -2), h, v[0, 0], beta), eps=EPS)
    check_update((x[..., 0], h, v[..., 0], beta), eps=EPS)


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


# ---------------------------------------------------------------- MGT's update

def diagonal(lead, d, device, dtype=torch.float32):
    # The gradient with respect to α is a sum of numbers of both signs. With these seeds it doesn't
    # cancel.
    vectors = (normal(*lead, d, seed=20 + i, dtype=dtype, device=device) for i in range(3))
    return *vectors, torch.tensor(0.7, device=device)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lead", LEADS.values(), ids=LEADS)
@pytest.mark.parametrize("d", [50, 1100])
def test_the_diagonal_update_is_the_operator(device, lead, d, dtype):
    check(delta.diagonal_update, operators.diagonal_update, *diagonal(lead, d, device, dtype))


def test_strided_states_are_updated_as_they_are(device):
    x, h, beta, alpha = diagonal((6, 7), 48, device)
    check(delta.diagonal_update, operators.diagonal_update, x.transpose(0, 1), h.transpose(0, 1),
          beta.mT.contiguous().mT.transpose(0, 1), alpha)
    check(delta.diagonal_update, operators.diagonal_update, x[..., ::2], h[..., ::2],
          beta[..., ::2], alpha.reshape(1))


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
