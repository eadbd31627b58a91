"""A norm behind the residual, in the pass that writes."""

from functools import partial
from unittest.mock import patch

import pytest
import torch
from shared_kernels import check, distance, normal
from test_every_kernel import EVERY, given
from test_gated_read import Blind
from test_joined import HALF, SINGLE, called, interpreted, network, outputs_and_gradients
from torch import nn
from torch.testing import assert_close

from benchmarks.traffic import traffic
from geolab import kernels, operators
from geolab.kernels import post_norm
from geolab.operators.post_norm import LayerNorm
from geolab.operators.streams import Norm, Unwritten

FORMS = [name for name in EVERY if name.startswith("post_norm")]
# a kernel, and the place of an argument that a mutant takes for zeros
MUTANTS = [*(("_forward", place) for place in range(4)),
           *(("_backward", place) for place in range(5))]


def require(name, inputs, **options):
    function = partial(EVERY[name].function, **options)
    with kernels.use("always"):
        check(function, function, *inputs)


@pytest.mark.parametrize("n, lead, d", [(1, (3,), 3), (2, (0,), 24), (3, (37,), 130), (4, (1,), 50),
                                        (4, (70,), 9), (2, (40,), 600)])
@pytest.mark.parametrize("name", FORMS)
def test_any_number_of_streams_tokens_and_features(device, name, n, lead, d):
    require(name, given(name, lead, device, n=n, d=d))


@pytest.mark.parametrize("name", FORMS)
def test_tokens_may_share_an_update_and_coefficients(device, name):
    x, update, gamma, *rows = given(name, (3, 5), device)
    require(name, [x, update[0, :1], gamma, *(row[:1] for row in rows)])


@pytest.mark.parametrize("place, change, message", [
    (1, lambda h: h[..., :-1], "update must have 50 features"),
    (1, lambda h: h[:2], "update must have leading axes"),
    (2, lambda gamma: gamma[:-1], "norm must have 50 features"),
    (3, lambda rows: rows[..., :-1], "given must have 4 features"),
    (3, lambda rows: rows[:2], "given must have leading axes"),
    (3, lambda rows: rows[..., 1:, :], "matrix must be 4 × 4")])
def test_what_does_not_fit_is_refused_by_name(device, place, change, message):
    inputs = given("post_norm", (3,), device)
    inputs[place] = change(inputs[place])
    with kernels.use("always"), pytest.raises(ValueError, match=message):
        EVERY["post_norm"].function(*inputs)


def test_eight_streams_are_written_first(device):
    with patch.dict(kernels.TWINS, post_norm=None):
        require("post_norm", given("post_norm", (5,), device, n=8, d=9))


@pytest.mark.parametrize("norm", [Norm, LayerNorm])
def test_programs_share_out_the_tokens_of_one_weight(device, norm):
    """Twelve programs in the interpreter, whose parts of the gradient of γ are added up."""
    require("post_norm", given("post_norm", (23,), device, n=2, d=1030), norm=norm)


@pytest.mark.parametrize("name", FORMS)
def test_a_float32_state_takes_a_half_update_as_under_autocast(device, name):
    x, update, *others = given(name, (5,), device)
    function = EVERY[name].function
    with kernels.use("always"):
        check(function, function, x, update.to(HALF), *others, tolerance=2e-2)


def test_a_half_sum_does_not_take_a_float32_update(device):
    """x + h is float32 then."""
    x, update, gamma = given("post_norm, x + h", (5,), device)
    state = Unwritten(x.to(HALF), update, None)
    with kernels.use("always"):
        assert operators.post_norm(state, Norm(gamma, 1e-5)).dtype == SINGLE


def test_h_and_b_may_stand_apart_and_tokens_may_share_them(device):
    x, update, gamma, rows = given("post_norm", (3, 5), device)
    for leading in (slice(None), slice(1), 0):
        mix, write = rows[..., :-1, :][leading], rows[..., -1, :][leading]
        require("post_norm, apart", [x, update, gamma, mix, write])


EVERY["post_norm, apart"] = EVERY["post_norm"]._replace(
    operator=lambda x, update, gamma, mix, write: operators.post_norm(
        Unwritten(x, update, (mix, write)), Norm(gamma, 1e-5)))


@pytest.mark.parametrize("name, place", MUTANTS)
def test_a_wrong_kernel_is_noticed(device, name, place):
    for norm in (Norm, LayerNorm):
        with (patch.object(post_norm, name, Blind(getattr(post_norm, name), place)),
              pytest.raises(AssertionError, match="relative error")):
            require("post_norm", given("post_norm", (7,), device, d=24), norm=norm)


@pytest.mark.parametrize("change", ["CENTRED", "ROWS"])
def test_a_kernel_of_another_norm_or_write_is_noticed(device, change):
    """A layer norm takes the mean off, and H = I is no H."""
    at, value = {"CENTRED": (-1, True), "ROWS": (-2, 1)}[change]

    class Other:
        def __getitem__(self, grid):
            def run(*args, **options):
                kernel[grid](*args[:at], value, *args[len(args) + at + 1:], **options)

            return run

    kernel = post_norm._forward
    with (patch.object(post_norm, "_forward", Other()),
          pytest.raises(AssertionError, match="relative error")):
        require("post_norm", given("post_norm", (7,), device, d=24))


@interpreted
@pytest.mark.parametrize("n", [2, 4])
def test_the_norm_moves_no_vector_beside_the_write(n):
    for name, vectors in {"post_norm": (2 * n + 1, 3 * n + 2), "post_norm, x + h": (3, 4)}.items():
        moved, N = [], 40
        for d in (64, 192):
            leaves = [t.requires_grad_() for t in given(name, (N,), "cpu", HALF, n, d)]
            with kernels.use("always"):
                with traffic() as there:
                    y = EVERY[name].function(*leaves)
                with traffic() as back:
                    torch.autograd.grad(y, leaves, torch.ones_like(y))
            assert there.launches == back.launches == 1
            moved.append((there.distinct - 4 * d, back.distinct - 8 * d))  # γ and its gradient
        assert tuple((b - a) / (128 * 2 * N) for a, b in zip(*moved, strict=True)) == vectors


# ---------------------------------------------------------------- networks

RESIDUALS = [("mhc", {"iterations": 2}), ("mhc", {"without": ("mix",)}),
             ("mhc", {"mix": "kronecker"}), ("hyper", {}), ("hyper", {"dynamic": False}),
             ("jpmhc", {}), ("additive", {})]


@pytest.mark.parametrize("norm", ["rms", "layer"])
@pytest.mark.parametrize("residual, options", RESIDUALS, ids=str)
def test_a_post_norm_network_takes_its_norms_where_it_writes(device, residual, options, norm):
    model, x = network(device, residual=residual, options=options, norm=norm, norm_at="post",
                       layers=1)
    wanted = outputs_and_gradients(model, x, "never")
    assert_close(outputs_and_gradients(model, x, "always"), wanted, rtol=1e-4, atol=1e-5)
    calls = called(lambda: model(x))
    assert calls["post_norm"] == 2 and not calls["stream_mix_write"]


@pytest.mark.parametrize("residual", ["mhc", "additive"])
def test_who_looks_at_a_state_or_changes_a_norm_sees_it_taken_apart(device, residual):
    model, x = network(device, residual=residual, options={}, norm_at="post", layers=1)
    seen = []
    with kernels.use("always"):
        wanted = model(x)
        first, second = model.layers
        hooks = [first.norm.register_forward_hook(lambda *given: seen.append(given)),
                 second.residual.register_forward_hook(lambda *given: seen.append(given))]
        assert not called(lambda: assert_close(model(x), wanted, rtol=1e-4, atol=1e-5))["post_norm"]
        assert len(seen) == 2
        for hook in hooks:
            hook.remove()
        first.norm.bias = nn.Parameter(normal(16, device=device))
        assert called(lambda: model(x))["post_norm"] == 1
        assert distance(model(x), wanted) > 1e-3
        first.norm.bias = None
        first.residual.forward = lambda state, sublayer: state
        assert called(lambda: model(x))["post_norm"] == 1


def test_a_post_norm_network_compiles_in_one_graph(device):
    model, x = network(device, layers=1, norm_at="post")
    wanted = outputs_and_gradients(model, x, "always")
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager").forward
    got = outputs_and_gradients(model, x, "always", lambda model, x: compiled(x))
    assert_close(got, wanted, rtol=1e-4, atol=1e-5)
