"""Statements of the ledger that hold for all inputs, as properties; chapters assert them on draws.

Each test names the label of the statement's directive.
"""

import math

import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch.nn.functional import cosine_similarity
from torch.testing import assert_close

from benchmarks import floors
from geolab.operators import delta_update, unit_direction

seeds, shares = st.integers(0, 2**31), st.floats(0, 1)
sizes, widths = st.floats(0.01, 100), st.integers(2, 9)
CLOSE = dict(rtol=1e-9, atol=1e-9)


def normal(seed, *shape):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def uniform(seed, *shape):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(seeds, widths, sizes, shares)
def test_a_step_no_longer_than_a_share_turns_by_no_more_than_its_arcsine(seed, d, size, eps):
    """stream-seesaw, part 3."""
    assume(eps < 1)
    x, w = size * normal(seed, 2, d)
    w = eps * w / w.norm() * x.norm()
    assert cosine_similarity(x, x + w, dim=0) >= math.sqrt(1 - eps**2) - 1e-9


@given(seeds, widths, st.integers(1, 4), st.floats(0, 30))
def test_the_frozen_flow_is_the_delta_update_of_a_gate_up_to_one(seed, d, channels, time):
    """delta-flow, part 1."""
    k = unit_direction(normal(seed, d))
    X, v = normal(seed + 1, d, channels), normal(seed + 2, channels)
    gate = -math.expm1(-time)
    decayed = torch.linalg.matrix_exp(-time * torch.outer(k, k)) @ (X - torch.outer(k, v))
    assert 0 <= gate <= 1  # 1 only by rounding
    assert_close(decayed + torch.outer(k, v), delta_update(X, k, v, gate), **CLOSE)


@given(st.floats(-3, 3), st.floats(-3, 3), shares)
def test_with_gates_up_to_one_a_repeated_update_is_monotone(start, value, gate):
    """delta-parity, part 2."""
    path, k = [torch.tensor([start], dtype=torch.float64)], torch.ones(1, dtype=torch.float64)
    value = torch.tensor(value, dtype=torch.float64)
    for _ in range(12):
        path.append(delta_update(path[-1], k, value, gate))
    steps = torch.cat(path).diff()
    assert (steps >= -1e-12).all() or (steps <= 1e-12).all()


@given(seeds, widths, st.integers(2, 5), st.data())
def test_predict_and_correct_is_a_hyper_connection(seed, d, n, data):
    """hyper-altup."""
    j = data.draw(st.integers(0, n - 1))
    X, P, g, found = (normal(seed + i, *shape) for i, shape in
                      enumerate(((n, d), (n, n), (n,), (d,))))
    H = (torch.eye(n, dtype=torch.float64) - torch.outer(g, torch.eye(n).double()[j])) @ P
    predicted = P @ X
    assert_close(H @ X + torch.outer(g, found),
                 predicted + torch.outer(g, found - predicted[j]), **CLOSE)
    assert_close(torch.linalg.det(H), (1 - g[j]) * torch.linalg.det(P), **CLOSE)


@given(st.floats(1e-5, 1), st.floats(1e-3, 0.9), sizes, st.floats(0, 1e4))
def test_the_length_under_decay_forgets_its_start(rate, decay, step, start):
    """ddl-adamw, part 4."""
    n, limit = start, rate * step / (decay * (2 - rate * decay))
    for k in range(1, 51):
        n = (1 - rate * decay) ** 2 * n + rate**2 * step
        assert math.isclose(n - limit, (1 - rate * decay) ** (2 * k) * (start - limit),
                            rel_tol=1e-6, abs_tol=1e-9 * (start + limit))


@given(seeds, st.sampled_from([4, 16, 64, 256]), st.integers(-20, 20))
def test_where_its_root_is_a_power_of_two_the_norms_agree_in_every_digit(seed, d, power):
    """ddl-precision, part 1."""
    h = (2.0**power * normal(seed, 5, d)).bfloat16()
    squares = h.float().square().sum(-1, keepdim=True)
    assume((squares > 0).all())
    rms, unit = ((h.float() / norm.sqrt()).bfloat16() for norm in (squares / d, squares))
    assert torch.equal(rms.float() / math.sqrt(d), unit.float())


@given(st.floats(-700, 700), st.floats(-0.5, 0.5))
def test_a_logit_that_is_off_by_a_factor_moves_the_gate_by_no_more(z, delta):
    """ddl-precision, part 2."""
    exact, off = (2 * torch.tensor(x, dtype=torch.float64).sigmoid() for x in (z, z * (1 + delta)))
    assert abs(off - exact) <= abs(delta) + 1e-15


@given(seeds, widths, sizes, sizes)
def test_rates_turn_a_change_by_no_more_than_their_range_allows(seed, d, low, high):
    """mgt-direction, part 2."""
    low, high = sorted((low, high))
    w, rates = normal(seed, d), low + (high - low) * uniform(seed + 1, d)
    least = 2 * math.sqrt(low * high) / (low + high)
    assert cosine_similarity(w, rates * w, dim=0) >= least - 1e-9


@given(seeds, st.integers(1, 60), st.floats(0, 0.99), sizes, st.floats(-100, 100))
def test_erasure_bounds_a_feature_at_every_depth(seed, depth, q, bound, start):
    """mgt-drift."""
    kept = q * (2 * uniform(seed, depth) - 1)
    writes = bound * (2 * uniform(seed + 1, depth) - 1)
    erased = plain = start
    for passed, (share, write) in enumerate(zip(kept.tolist(), writes.tolist()), start=1):
        erased, plain = share * erased + write, plain + write
        assert abs(erased) <= q**passed * abs(start) + bound / (1 - q) + 1e-9
        assert abs(plain) <= abs(start) + passed * bound + 1e-9


@given(st.integers(1, 10**5), st.integers(1, 512), st.sampled_from([2, 4]))
def test_a_delta_update_does_less_than_two_operations_per_number(d, channels, size):
    """kernel-rank-one."""
    assert 4 * d * channels / floors.delta_update(1, d, channels, size).forward < 2 / size


@given(st.integers(1, 10**5), st.integers(2, 32), st.sampled_from([2, 4]))
def test_lanes_and_channels_move_the_same_and_a_projection_more(d, n, size):
    """audit-cost-order."""
    coefficients = 4 * (n + n**2 + n)
    lanes = sum(floors.stream_read(1, n, d, size)[:1] + floors.stream_mix_write(1, n, d, size)[:1])
    channels = (n + 1) * size * d + floors.delta_update(1, d, n, size).forward - 4 * (n + 1)
    assert lanes - coefficients == channels == (3 * n + 2) * size * d
    assert floors.sinkhorn(1, n).forward == 4 * 2 * n**2
    assert channels > floors.delta_update(1, d, 1, size).forward - 8 == 3 * size * d
