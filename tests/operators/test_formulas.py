"""Each operator is its equation, written out in float64, whatever the form of its inputs."""

from functools import partial, reduce
from itertools import permutations

import pytest
import torch
from shared import normal
from test_every_operator import EPS, EXAMPLES, N, draws, given, operator
from torch.autograd import gradcheck
from torch.testing import assert_close

from geolab import operators
from geolab.operators.polytope import shift_matrices

DOUBLE = torch.float64


def eye(x):
    return torch.eye(x.shape[-1], dtype=x.dtype)


def outer(a, b):
    return a.unsqueeze(-1) * b.unsqueeze(-2)


def share(gate):
    return gate[..., None, None]


# ---------------------------------------------------------------- rotations and reflections

def solved(m):
    return torch.linalg.solve(eye(m) + m, eye(m) - m)


def plane(u, v, beta):
    """E-MHC-Geo's equation 3."""
    m = share(beta) / 2 * (outer(u, v) - outer(v, u))
    square = m.triu().square().sum((-2, -1))
    return eye(m) - 2 / (1 + share(square)) * (m - m @ m)


def reflection(k):
    return eye(k) - 2 * outer(k, k)


def blend(q, h, gate):
    return share(gate) * q + (1 - share(gate)) * h


def iterated(w):
    k = w / 20
    y = eye(w) + 2 * k
    for _ in range(2):
        y = eye(w) + k @ (eye(w) + y)
    return y


def geodesic(q, k, gate):
    """Q times the complex power 1 − γ of the reflection, as a real matrix of 2 × 2 blocks."""
    power = torch.exp(1j * torch.pi * (1 - share(gate))) - 1
    turned = q.to(power.dtype) @ (eye(q) + power * outer(k, k))
    quarter = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=q.dtype)
    blocks = (torch.einsum("bij,kl->bikjl", turned.real, torch.eye(2, dtype=q.dtype))
              + torch.einsum("bij,kl->bikjl", turned.imag, quarter))
    return blocks.flatten(3, 4).flatten(1, 2)


# ---------------------------------------------------------------- doubly stochastic matrices

def sinkhorn(logits, iterations=20, axes=(-2, -1)):
    for _ in range(iterations):
        for axis in axes:
            logits = logits.log_softmax(axis)
    return logits.exp()


def guarded(logits, iterations, eps):
    """DeepSeek-V4's code, which works on the transpose, with the rows first."""
    c = logits.mT.softmax(-1) + eps
    c = c / (c.sum(-2, keepdim=True) + eps)
    for _ in range(iterations - 1):
        c = c / (c.sum(-1, keepdim=True) + eps)
        c = c / (c.sum(-2, keepdim=True) + eps)
    return c.mT


def mixture(logits, corners):
    return torch.einsum("...k,kij->...ij", logits.softmax(-1), corners.to(logits.dtype))


def permuted(z):
    n = {1: 1, 2: 2, 24: 4}[z.shape[-1]]
    one = torch.eye(n)
    return mixture(z, torch.stack([one[list(order)] for order in permutations(range(n))]))


def circulant(z):
    return mixture(z, torch.stack([eye(z).roll(k, 0) for k in range(z.shape[-1])]))


def kronecker(z):
    factors = z.softmax(-1)
    swaps = torch.stack([factors, factors.flip(-1)], -1)
    return torch.stack([reduce(torch.kron, one) for one in swaps])


def orthostochastic(z):
    n = {1: 1, 6: 2, 28: 4}[z.shape[-1]]
    m = torch.zeros(len(z), 2 * n, 2 * n, dtype=z.dtype)
    m[(slice(None), *torch.triu_indices(2 * n, 2 * n, 1))] = z
    return solved(m - m.mT).square().view(len(z), n, 2, n, 2).sum((2, 4)) / 2


# ---------------------------------------------------------------- states

def delta(x, k, v, beta, erase=True, eps=None):
    """X + β k (vᵀ − kᵀX), where a vector is a state of one column."""
    if x.ndim == k.ndim:
        return delta(x.unsqueeze(-1), k, v.unsqueeze(-1), beta, erase, eps).squeeze(-1)
    if eps is not None:
        k = direction(k, eps)
    heard = torch.einsum("...i,...ij->...j", k, x) if erase else 0
    return x + share(beta) * outer(k, v - heard)


def direction(h, eps=0.0):
    return h / (h.square().sum(-1, keepdim=True) + eps**2).sqrt()


def over_rms(x, eps):
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


def layer_normed(x):
    return over_rms(x - x.mean(-1, keepdim=True), EPS)


def generated(x, weight, eps):
    return over_rms(x, eps) @ weight.mT


def layer(x, h, u, c, value_map, value_bias, rate_map, rate_bias):
    """DDL's update with v = 4σ(V u + b) and β = 2σ(w c + b′)."""
    v = 4 * (torch.einsum("vd,...d->...v", value_map, u) + value_bias).sigmoid()
    beta = 2 * (torch.einsum("d,...d->...", rate_map[0], c) + rate_bias[0]).sigmoid()
    return delta(x, h, v, beta, eps=EPS)


def attended(x, query):
    """Σ αₛ xₛ, α ∝ exp(wᵀ xₛ / rms xₛ)."""
    shares = (over_rms(x, EPS) @ query).exp()
    return read(x, shares / shares.sum(-1, keepdim=True))


def attended_normed(x, query):
    """The same of xₛ / rms xₛ, all but the last, with logits over √d and weights that sum to k."""
    k, d = x.shape[-2] - 1, x.shape[-1]
    x = over_rms(x[..., :k, :], EPS)
    shares = (x @ query / d**0.5).exp()
    return read(x, k * shares / shares.sum(-1, keepdim=True))


def gated(x, weight, logits):
    """Σ σ(lᵢ) ⊙ x̂ᵢ / n, and x̂."""
    normed = (1 + weight) * over_rms(x, EPS)
    return (logits.sigmoid() * normed).mean(-2), normed.flatten(-2)


def written(x, h, b, update):
    return h @ x + outer(b, update)


def normed_behind(x, update, gamma, rows=None):
    """The norm of H x + b ⊗ h, or of x + h."""
    z = x + update if rows is None else written(x, rows[..., :-1, :], rows[..., -1, :], update)
    return gamma * over_rms(z, EPS)


def read(x, a):
    return torch.einsum("...n,...nd->...d", a, x)


def split(x, weight):
    """x, what is read of it, and the coefficients that it generates."""
    n = x.shape[-2]
    a, b, h = generated(x.flatten(-2), weight, EPS).split((n, n, n * n), -1)
    return x, read(x, a), a, b, h.unflatten(-1, (n, n))


def constrained(x, given, update, weight, scale, bias, old=None, made=None, guard=0.0):
    """mHC's write, then its generator: `made` makes H of its logits, and None leaves it out."""
    n = x.shape[-2]
    h, b = given[..., :-1, :], given[..., -1, :]
    z = written(x, h if h.shape[-2] else eye(b), b, update)
    y = generated(z.flatten(-2), weight, EPS)
    a, b, h = y[..., :n], y[..., n:2 * n], y[..., 2 * n:]
    a = (scale[0] * a + bias[:n]).sigmoid() + guard
    b = (2 * (scale[1] * b + bias[n:2 * n]).sigmoid() + guard).unsqueeze(-2)
    if made:
        b = torch.cat([made(scale[2] * h + bias[2 * n:]), b], -2)
    return (z, read(z, a), b) if old is None else (z, read(z, old), b, a)


def hyper(x, given, update, weight, scale, table, bound=torch.tanh):
    """HC's write, then its coefficients: a row [bᵢ | aᵢ | row i of A] for each stream; H = Aᵀ."""
    n = x.shape[-2]
    z = written(x, given[..., :n, :], given[..., n, :], update)
    b, a, h = torch.zeros_like(z[..., 0]), torch.zeros_like(z[..., 0]), torch.zeros_like(z @ z.mT)
    for i in range(n):
        numbers = bound(torch.einsum("kd,...d->...k", weight, layer_normed(z[..., i, :])))
        row = table[i * (n + 2):(i + 1) * (n + 2)]
        b[..., i] = row[0] + scale[0] * numbers[..., 0]
        a[..., i] = row[1] + scale[1] * numbers[..., 1]
        for j in range(n):
            h[..., j, i] = row[2 + j] + scale[1] * numbers[..., 2 + j]
    return z, read(z, a), torch.cat([h, b.unsqueeze(-2)], -2)


def turned(x, given, update, weight, scale, bias, stretch, shift, matrix=iterated):
    """JPmHC's write, then its coefficients, at τ = 1."""
    n = x.shape[-2]
    z = written(x, given[..., :n, :], given[..., n, :], update)
    logits = (stretch * layer_normed(z.flatten(-2)) + shift) @ weight.mT + bias
    of_a, of_b, of_h = logits.unflatten(-1, (3, n, n)).unbind(-3)
    a = of_a.softmax(-1).sum(-2) / n
    b = scale * of_b.mT.softmax(-1).mT.sum(-1)
    return z, read(z, a), torch.cat([matrix(of_h - of_h.mT), b.unsqueeze(-2)], -2)


def squared(of):
    """A function of n × n logits, of the same as a vector."""
    return lambda z: of(z.unflatten(-1, 2 * (int(z.shape[-1]**0.5),)))


FORMULAS = {
    "attend": attended,
    "attend, normed": attended_normed,
    "attend_on": lambda x, w: (x, attended(x, w)),
    "blend": blend,
    "gated_read": gated,
    "cayley_iterated": iterated,
    "cayley_rank2": plane,
    "cayley_skew4": solved,
    "circulant_mixture": circulant,
    "constrained_join": partial(constrained, made=squared(partial(sinkhorn, iterations=4))),
    "constrained_join, guarded": partial(
        constrained, guard=1e-3, made=squared(partial(guarded, iterations=4, eps=1e-3))),
    "constrained_join, single pass": partial(
        constrained, made=squared(partial(sinkhorn, iterations=4))),
    "constrained_join, H = I": constrained,
    "constrained_join, mixture": partial(
        constrained, made=lambda z: mixture(z, shift_matrices(z.shape[-1]))),
    "delta_layer": layer,
    "delta_matrix": lambda k, beta: eye(k) - share(beta) * outer(k, k),
    "delta_shortcut": lambda x, k, beta: delta(x, k, 0 * beta, beta),
    "delta_update": delta,
    "delta_update, normalised": partial(delta, eps=0.0),
    "delta_update, guarded": partial(delta, eps=EPS),
    "delta_update, written alone": partial(delta, erase=False),
    "diagonal_update": lambda x, h, beta, alpha: (1 - alpha * beta) * x + beta * h,
    "gated_matrix": lambda q, k, gate: blend(q, reflection(k), gate),
    "gated_mix": lambda x, u, v, beta, k, gate: blend(plane(u, v, beta), reflection(k), gate) @ x,
    "geodesic": geodesic,
    "householder_matrix": reflection,
    "hyper_join": hyper,
    "hyper_join, unbounded": partial(hyper, bound=lambda numbers: numbers),
    "jpmhc_join": turned,
    "jpmhc_join, exact": partial(turned, matrix=lambda w: solved(-0.05 * w)),
    "kronecker_mixture": kronecker,
    "midpoint_penalty": lambda gate: 1 - (2 * gate - 1)**2,
    "orthostochastic": orthostochastic,
    "permutation_mixture": permuted,
    "post_norm": normed_behind,
    "post_norm, x + h": normed_behind,
    "reflect": lambda x, k: (reflection(k) @ x.unsqueeze(-1)).squeeze(-1),
    "rms_linear": partial(generated, eps=EPS),
    "rms_linear, unguarded": partial(generated, eps=0.0),
    "sinkhorn": sinkhorn,
    "sinkhorn, guarded": partial(guarded, iterations=4, eps=1e-3),
    "sinkhorn, logarithmic": partial(sinkhorn, iterations=4, axes=(-1, -2)),
    "skew": lambda w: w - w.transpose(-2, -1),
    "stream_generate": split,
    "stream_join": lambda x, h, b, update, weight: split(written(x, h, b, update), weight),
    "stream_mix": lambda x, h: torch.einsum("...mn,...nd->...md", h, x),
    "stream_mix_write": written,
    "stream_read": read,
    "stream_write": lambda x, b, update: x + outer(b, update),
    "stream_write_read": lambda x, given, update, a: (
        z := written(x, given[..., :-1, :], given[..., -1, :], update), read(z, a)),
    "unit_direction": direction,
    "unit_direction, guarded": partial(direction, eps=EPS),
}


def results(y):
    return y if isinstance(y, tuple) else (y,)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_operator_is_its_equation(name):
    for n in EXAMPLES[name].streams:
        for case, inputs in draws(name, n, DOUBLE, (1e-6, 1.0, 1e6)):
            wanted = FORMULAS[name](*inputs)
            for ours, theirs in zip(results(operator(name)(*inputs)), results(wanted), strict=True):
                assert (ours - theirs).norm() <= 1e-9 * theirs.norm(), (n, case)


@pytest.mark.parametrize("name", EXAMPLES)
def test_inputs_may_be_strided_and_stay_as_they_were(name):
    inputs = given(name, EXAMPLES[name].streams[-1])
    apart = [torch.stack([x, x], -1)[..., 0] for x in inputs]
    assert_close(operator(name)(*apart), operator(name)(*inputs), rtol=1e-5, atol=1e-6)
    assert all(map(torch.equal, apart, inputs))


OF_ALL_TOKENS = {  # an operator, and the places of the inputs that all tokens share
    "attend": (1,), "attend_on": (1,), "constrained_join": (3, 4, 5),
    "delta_layer": (4, 5, 6, 7), "diagonal_update": (3,), "gated_read": (1,),
    "hyper_join": (3, 4, 5),
    "jpmhc_join": (3, 4, 5, 6, 7), "post_norm": (2,), "rms_linear": (1,),
    "stream_generate": (1,), "stream_join": (4,)}


@pytest.mark.parametrize("name", EXAMPLES)
def test_leading_axes_are_one_token_each(name):
    inputs = [x.double() for x in given(name, EXAMPLES[name].streams[-1])]
    shared = OF_ALL_TOKENS.get(name.split(",")[0], ())

    def of(tokens):
        return results(operator(name)(*(x if place in shared else tokens(x)
                                        for place, x in enumerate(inputs))))

    together, beside, none = of(lambda x: x), of(lambda x: x[:, None]), of(lambda x: x[:0])
    alone = [torch.stack(one) for one in zip(*(of(lambda x, i=i: x[i]) for i in range(N)),
                                             strict=True)]
    for place, wanted in enumerate(together):
        assert_close(alone[place], wanted)
        assert_close(beside[place], wanted[:, None])
        assert none[place].shape == (0, *wanted.shape[1:])


FEWER = {"stream_read": [(1,)], "stream_write": [(1,)], "stream_mix": [(1,)],
         "stream_mix_write": [(1,), (2,)], "gated_mix": [(1, 2, 3), (4, 5)]}


@pytest.mark.parametrize("name", FEWER)
@pytest.mark.parametrize("fewer", [lambda x: x[:, :1], lambda x: x[:1], lambda x: x[0, 0]])
def test_tokens_may_share_coefficients(name, fewer):
    inputs = [torch.stack([x, x.cos()], 1).double() for x in given(name, 4)]
    for places in FEWER[name]:
        shared = [fewer(x) if place in places else x for place, x in enumerate(inputs)]
        full = [x.expand(inputs[place].shape) for place, x in enumerate(shared)]
        assert_close(operator(name)(*shared), operator(name)(*full))


@pytest.mark.parametrize("eps", [None, 0.0, 1e-12, 0.5])
def test_states_may_share_a_direction(eps):
    x, k, beta = normal(2, 5, 3), normal(2, 1, 3, seed=1), normal(2, 1, seed=2)
    erased = partial(operators.delta_shortcut, eps=eps)
    assert_close(erased(x, k, beta), delta(x, k.expand_as(x), 0 * beta, beta, eps=eps))
    assert gradcheck(erased, [t.requires_grad_() for t in (x, k, beta)])


NUMBERS = {  # an operator, and the places of the inputs that may be numbers
    "blend": (2,), "cayley_rank2": (2,), "delta_matrix": (1,), "gated_matrix": (2,),
    "gated_mix": (3, 5), "delta_update": (2, 3)}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_stands_for_a_tensor_of_it(name):
    inputs = given(name, 4)
    for place in NUMBERS[name]:
        number, full = list(inputs), list(inputs)
        number[place], full[place] = 0.3, torch.full_like(inputs[place], 0.3)
        assert_close(operator(name)(*number), operator(name)(*full), rtol=0, atol=1e-6)
