"""A test of a kernel must fail for a wrong kernel.

Here `check` gets functions that stand for kernels, each of them wrong in one place. The first group
has errors that any kernel can have. The second group has errors in the equation of one kernel.
"""

import pytest
import torch
from shared_kernels import TOLERANCE, check, normal

from benchmarks.cases import CASES, EPS, STREAMS, draws, split
from geolab import operators as ops

TOKENS, FEATURES = 37, 24


def given(name):
    return CASES[name].inputs(TOKENS, STREAMS, FEATURES, *draws("cpu", torch.float32, seed=0))


EVERY_INPUT = [(name, place) for name in CASES for place in range(len(given(name)))]


def each(change, outputs):
    """The change of an output, or of every output."""
    return tuple(map(change, outputs)) if isinstance(outputs, tuple) else change(outputs)


def is_caught(wrong, right, *inputs):
    with pytest.raises(AssertionError, match="relative error"):
        check(wrong, right, *inputs)


@pytest.mark.parametrize("name", CASES)
def test_what_is_right_passes(name):
    rounded = any(x.dtype != torch.float32 for x in given(name))
    check(CASES[name].function, CASES[name].function, *given(name),
          tolerance=TOLERANCE[torch.bfloat16] if rounded else 1e-4)


@pytest.mark.parametrize("name", CASES)
def test_an_output_that_is_negated_or_without_its_last_token_is_caught(name):
    right = CASES[name].function
    last = torch.ones(TOKENS)
    last[-1] = 0

    def without_the_last(y):
        return y * last.view(-1, *[1] * (y.ndim - 1))

    for change in (without_the_last, torch.neg):
        is_caught(lambda *inputs, change=change: each(change, right(*inputs)), right, *given(name))


@pytest.mark.parametrize("name, place", EVERY_INPUT)
def test_a_gradient_of_zeros_is_caught(name, place):
    right = CASES[name].function

    def wrong(*inputs):
        constant = [x.detach() if i == place else x for i, x in enumerate(inputs)]
        return each(lambda y: y + 0 * inputs[place].sum(), right(*constant))

    is_caught(wrong, right, *given(name))


def by_a_difference(u, v, beta):
    """Q with its angle from ‖u‖²‖v‖² − (u·v)², which cancels."""
    square = (u.square().sum(-1) * v.square().sum(-1) - (u * v).sum(-1).square()).clamp(min=1e-30)
    m = ops.skew(u.unsqueeze(-1) * v.unsqueeze(-2)) * beta[:, None, None] / 2
    share = 2 / (1 + beta.square() / 4 * square)[:, None, None]
    return torch.eye(u.shape[-1]) - share * (m - m @ m)


def without_the_pfaffian(w):
    p = w.square().sum((-2, -1), keepdim=True) / 2
    return torch.eye(4) - 2 / (1 + p) * (w - w @ w)


def constant_norm(x, weight):
    """The gradient with respect to x lacks the share of the norm."""
    return (x @ weight.mT) * torch.rsqrt(x.detach().square().mean(-1, keepdim=True) + EPS)


def joined(write=lambda *given: given, generate=lambda z, w: (z, w), read=lambda z, a: (z, a)):
    """`stream_join`, one operator after the other, with changes to what they are given."""
    def wrong(x, matrix, weights, update, weight):
        z = ops.stream_mix_write(*write(x, matrix, weights, update))
        state, w = generate(z, weight)
        found = split(ops.rms_linear(state.flatten(-2), w, EPS))
        return z, ops.stream_read(*read(z, found[0])), *found

    return "stream_join", wrong


WRONG = {
    "joined: H transposed": joined(write=lambda x, h, *rest: (x, h.mT, *rest)),
    "joined: ∂X without what is written": joined(
        write=lambda x, *rest: (x.detach() + 0 * x, *rest)),
    "joined: ∂Z without the read": joined(read=lambda z, a: (z.detach(), a)),
    "joined: ∂a left out": joined(read=lambda z, a: (z, a.detach())),
    "joined: ∂Z without the generator": joined(generate=lambda z, w: (z.detach(), w)),
    "joined: streams of W in the wrong order": joined(
        generate=lambda z, w: (z, w.unflatten(-1, z.shape[-2:]).flip(-2).flatten(-2))),
    "weights in the wrong order": ("stream_read", lambda x, a: ops.stream_read(x, a.flip(-1))),
    "the coefficients of another token": ("stream_read",
                                          lambda x, a: ops.stream_read(x, a.roll(1, 0))),
    "a transposed matrix": ("stream_mix", lambda x, h: ops.stream_mix(x, h.mT)),
    "nothing is written": ("stream_mix_write",
                           lambda x, h, b, f: ops.stream_mix_write(x, h, 0 * b, 0 * f)),
    "γ and 1 − γ swapped": ("gated_mix", lambda *rest: ops.gated_mix(*rest[:-1], 1 - rest[-1])),
    "the transpose of Q": ("gated_mix", lambda x, u, v, *rest: ops.gated_mix(x, v, u, *rest)),
    "the guard forgotten": ("rms_linear", lambda x, w: ops.rms_linear(x, w, 0.0)),
    "a norm that the backward pass takes as constant": ("rms_linear", constant_norm),
    "nothing is erased": ("delta_update",
                          lambda *rest: ops.delta_update(*rest, erase=False, eps=EPS)),
    "channels in the wrong order": (
        "delta_update, d_v = 4", lambda x, h, v, b: ops.delta_update(x, h, v.flip(-1), b, eps=EPS)),
    "added where it should erase": ("diagonal_update",
                                    lambda x, h, b, a: ops.diagonal_update(x, h, b, -a)),
    "an iteration fewer": ("sinkhorn", lambda x: ops.sinkhorn(x, 19)),
    "rows and columns in the other order": ("sinkhorn, rows first", ops.sinkhorn),
    "u and v swapped": ("cayley_rank2", lambda u, v, beta: ops.cayley_rank2(v, u, beta)),
    "the Pfaffian left out": ("cayley_skew4", without_the_pfaffian),
}


@pytest.mark.parametrize("name, wrong", WRONG.values(), ids=WRONG)
def test_a_wrong_equation_is_caught(name, wrong):
    # a small state, for which the guard of the norm matters
    scale = 1e-2 if name == "rms_linear" else 1
    is_caught(wrong, CASES[name].function, *(scale * x for x in given(name)))


def test_an_angle_by_a_difference_is_caught_where_it_cancels():
    u, w, beta = (normal(200, *own, seed=seed) for seed, own in enumerate([(4,), (4,), ()]))
    check(by_a_difference, ops.cayley_rank2, u, w, beta, tolerance=1e-4)
    with pytest.raises(AssertionError, match="relative error"):
        check(by_a_difference, ops.cayley_rank2, 1000 * u, 1000 * u + w, 1e-3 * beta,
              tolerance=1e-3)


def test_a_cotangent_of_ones_would_let_a_gradient_of_zeros_pass():
    # The rows of P sum to one for all logits, so the true gradient of the sum of P is only
    # rounding.
    leaf = normal(111, 4, 4, seed=1).requires_grad_()
    right, = torch.autograd.grad(ops.sinkhorn(leaf).sum(), leaf)
    assert right.abs().max() < 1e-6
