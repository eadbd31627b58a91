import numpy as np
import pytest
import torch
from shared import CLOSE, STREAMS, WIDTH, networks, shaken, sublayer, train, vectors
from torch.testing import assert_close

from geolab.probes import future_influence, states
from geolab.residuals import JPmHC

ENTRY = dict(rtol=0, atol=1e-5)  # the entry's mean is 1 to float32 rounding
every_retraction = pytest.mark.parametrize("retraction", ["iterated", "exact"])
every_end = pytest.mark.parametrize("ends", ["scaled", "copied"])


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def by_hand(residual, x, mix):
    """One token, n streams: the paper's equations in numpy; the exact retraction by a solve."""
    n, w = len(x), {name: p.detach().numpy() for name, p in residual.named_parameters()}
    flat = x.reshape(-1)
    if "norm.weight" in w:
        flat = (flat - flat.mean()) / np.sqrt(flat.var() + 1e-5)
        normed = w["norm.weight"] * flat + w["norm.bias"]
    else:
        normed = flat / np.sqrt(np.mean(flat**2) + 1e-5)
    read, write, res = (w["generate.weight"] @ normed + w["generate.bias"]).reshape(3, n, n)
    skew, eye, alpha = res - res.T, np.eye(n), residual.alpha
    if residual.retraction == "exact":
        y = np.linalg.solve(eye - alpha / 2 * skew, eye + alpha / 2 * skew)
    else:
        y = eye + alpha * skew
        for _ in range(residual.steps):
            y = eye + alpha / 2 * skew @ (eye + y)
    h_pre = softmax(read / residual.temperature, 1)
    h_post = softmax(write / residual.temperature, 0)
    h = mix(torch.from_numpy((h_pre @ x).mean(0))).detach().numpy()
    return y @ x + w.get("scale", 1.0) * np.outer(h_post.sum(1), h)


@pytest.mark.parametrize("options",
                         [{}, {"streams": 3, "steps": 4, "alpha": 0.5, "temperature": 2.0},
                          {"retraction": "exact"}, {"retraction": "exact", "alpha": 3.0},
                          {"norm": "rms"}, {"ends": "split", "write_scale": False}])
def test_forward_is_the_equation_written_out(options):
    residual = shaken(JPmHC(WIDTH, 2, 6, **options).double())
    mix, x = sublayer(), vectors(2, 5, residual.streams, WIDTH)
    step = residual(x, mix)
    for b, t in np.ndindex(2, 5):
        assert_close(step[b, t], torch.from_numpy(by_hand(residual, x[b, t].numpy(), mix)),
                     rtol=1e-12, atol=1e-12)


@every_retraction
@every_end
def test_step_zero_is_the_plain_network(ends, retraction):
    network, plain = networks("jpmhc", ends=ends, retraction=retraction)
    x = vectors(2, 5, WIDTH)
    for wide, single in zip(states(network, network.layers, x), states(plain, plain.layers, x),
                            strict=True):
        assert_close(wide.mean(-2), single, **ENTRY)
    assert_close(network(x), plain(x), **ENTRY)


@every_retraction
def test_coefficients_at_step_zero(retraction):
    residual = JPmHC(WIDTH, retraction=retraction)
    read, write, mix = residual.coefficients(torch.randn(2, 3, STREAMS, WIDTH))
    assert_close(read, torch.full((2, 3, STREAMS), 1 / STREAMS), rtol=0, atol=0)
    assert_close(write, torch.ones(2, 3, STREAMS), rtol=0, atol=0)
    assert_close(mix, torch.eye(STREAMS).expand(2, 3, -1, -1), rtol=0, atol=0)


def test_reads_and_writes_keep_their_sums():
    residual = shaken(JPmHC(WIDTH).double(), size=2.0)
    read, write, _ = residual.coefficients(vectors(2, 5, STREAMS, WIDTH))
    assert_close(read.sum(-1), torch.ones(2, 5, dtype=torch.float64), **CLOSE)
    assert_close(write.sum(-1), STREAMS * residual.scale.expand(2, 5), **CLOSE)
    # of ten tokens, not all saturate
    assert read.std(-1).max() > 1e-2 and (write / residual.scale).std(-1).max() > 1e-2


@pytest.mark.parametrize("size", [0.03, 1.0, 10.0, 1e4])
def test_the_exact_retraction_is_orthogonal_at_any_size_and_the_iterated_at_small_ones(size):
    defects = {}
    for retraction in ("exact", "iterated"):
        residual = shaken(JPmHC(WIDTH, retraction=retraction).double(), size)
        mix = residual.coefficients(vectors(2, 5, STREAMS, WIDTH)).mix
        defects[retraction] = (mix.mT @ mix - torch.eye(STREAMS).double()).abs().max()
    assert defects["exact"] < 1e-10
    assert (defects["iterated"] < 1e-3) == (size < 1)


def test_the_exact_retraction_is_the_limit_of_the_iterated():
    x = vectors(2, 5, STREAMS, WIDTH)
    exact, iterated = (shaken(JPmHC(WIDTH, **options).double()).coefficients(x).mix
                       for options in ({"retraction": "exact"}, {"steps": 100}))
    assert (exact - torch.eye(STREAMS).double()).abs().max() > 0.1
    assert_close(iterated, exact, **CLOSE)


@every_retraction
def test_copied_ends_leave_every_generator_dead_and_scaled_ends_do_not(retraction):
    # copies, read and written alike, have one common gradient: W = H − Hᵀ gets none, nor do weights
    # whose sum is fixed
    dead, alive = (networks("jpmhc", ends=ends, retraction=retraction)[0]
                   for ends in ("copied", "scaled"))
    for network in (dead, alive):
        train(network, steps=3)
    last = states(dead, dead.layers, vectors(2, 5, WIDTH))[-1]
    assert (last - last.mean(-2, keepdim=True)).abs().max() < 1e-12
    for layer in dead.layers:
        assert layer.residual.generate.weight.abs().max() < 1e-12
        assert (layer.residual.scale - 1).abs() > 1e-6  # the plain residual learns on beside them
    for layer in alive.layers:
        for part in layer.residual.generate.weight.chunk(3):  # of a, b and Y
            assert part.abs().max() > 1e-6


def test_the_norm_learns_from_the_second_step_on():
    network, _ = networks("jpmhc")
    for reached in (False, True):
        train(network, steps=1)
        for layer in network.layers:
            for p in layer.residual.norm.parameters():
                assert (p.grad.abs().max() > 0) == reached


def test_only_the_first_and_the_last_residual_have_ends():
    network, _ = networks("jpmhc")
    ends = [[name for name in ("entry", "exit") if hasattr(layer.residual, name)]
            for layer in network.layers]
    assert ends == [["entry"], [], [], ["exit"]]
    alone = JPmHC(WIDTH).double()
    x = vectors(2, 5, WIDTH)
    assert_close(alone.expand(x), torch.stack([x * e for e in alone.entry()], dim=-2), **CLOSE)
    state = vectors(2, 5, STREAMS, WIDTH)
    with torch.no_grad():
        alone.exit().normal_()
    left = sum(state[..., i, :] * weight for i, weight in enumerate(alone.exit()))
    assert_close(alone.reduce(state), left, **CLOSE)


def test_split_ends_take_and_give_all_streams():
    residual, x = JPmHC(WIDTH, ends="split").double(), vectors(2, 5, STREAMS * WIDTH)
    assert residual.outer == STREAMS * WIDTH and JPmHC(WIDTH).outer == WIDTH
    assert torch.equal(residual.expand(x), x.unflatten(-1, (STREAMS, WIDTH)))
    assert torch.equal(residual.reduce(residual.expand(x)), x)
    assert not {"entry", "exit"} & dict(residual.named_children()).keys()


def test_without_the_scale_and_the_norms_weights_only_the_generator_is_left():
    residual = JPmHC(WIDTH, ends="split", norm="rms", write_scale=False)
    assert [name for name, _ in residual.named_parameters()] == ["generate.weight",
                                                                 "generate.bias"]


@every_retraction
def test_it_stays_causal_when_trained(retraction):
    assert future_influence(shaken(networks("jpmhc", retraction=retraction)[0]),
                            vectors(2, 7, WIDTH)) == 0


@pytest.mark.parametrize("options, message", [
    ({"streams": 1}, "streams must be at least 2, got 1"),
    ({"retraction": "cayley"}, "retraction must be one of 'iterated', 'exact', got 'cayley'"),
    ({"ends": "linear"}, "ends must be one of 'scaled', 'copied', 'split', got 'linear'"),
    ({"norm": "batch"}, "norm must be one of 'layer', 'rms', got 'batch'"),
    ({"write_scale": 2}, "write_scale must be one of True, False, got 2"),
    ({"retraction": "exact", "streams": 3},
     "retraction='exact' is a closed form for 4 streams, got streams = 3; .*"),
    ({"steps": 0}, "steps must be at least 1, got 0"),
    ({"steps": 2.5}, "steps must be a whole number, got 2.5"),
    ({"streams": "4"}, "streams must be a whole number, got '4'"),
    ({"temperature": 0.0}, "temperature must be positive, got 0.0"),
    ({"alpha": 0.0}, "alpha must be positive, got 0.0"),
    ({"alpha": -0.1}, "alpha must be positive, got -0.1"),
    ({"alpha": float("nan")}, "alpha must be a finite number, got nan"),
])
def test_a_wrong_configuration_is_refused(options, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        JPmHC(WIDTH, **options)
