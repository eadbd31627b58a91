import math
import pickle
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from shared import normal
from torch.testing import assert_close

from geolab.models import KINDS, GeometricConfig, GeometricDecoder, GeometricTransformer, path_graph
from geolab.models.geometric import PLACES, load_balance, make_step, sinusoids, top_k_weights
from geolab.probes import future_influence, influence

CLOSE = dict(rtol=0, atol=1e-12)
WIDTH, LENGTH = 8, 7

every_kind = pytest.mark.parametrize("kind", KINDS)
every_norm = pytest.mark.parametrize("norm_at", ["post", "pre"])


def vectors(length=LENGTH, seed=0):
    return normal(3, length, WIDTH, seed=seed)


def config(**changes):
    return GeometricConfig(**{"width": WIDTH, "heads": 2, "hidden": 12} | changes)


def build(kind, make=GeometricTransformer, options=None, **changes):
    torch.manual_seed(0)
    return make(config(**changes), kind, **(options or {})).double().eval()


# ---------------------------------------------------------------- the equations

def softmax_attention(module, x, memory, causal=False):
    """One head and one query at a time."""
    E = WIDTH // 2
    weights, biases = module.in_proj_weight.chunk(3), module.in_proj_bias.chunk(3)
    q, k, v = (y @ w.T + b for y, w, b in zip((x, memory, memory), weights, biases, strict=True))
    result = torch.zeros_like(x)
    for head in range(2):
        own = slice(head * E, (head + 1) * E)
        for t in range(x.shape[1]):
            last = t + 1 if causal else memory.shape[1]
            weights = (k[:, :last, own] @ q[:, t, own, None] / E**0.5).exp()
            result[:, t, own] = (weights / weights.sum(1, keepdim=True) * v[:, :last, own]).sum(1)
    return module.out_proj(result)


def layer_norm(x):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()


def by_hand(letter, f, x, causal, memory=None, activation="relu"):
    """f of a step, from the lecture's formulas: position by position where positions meet."""
    neighbours = [[t - 2, t - 1, t] if causal else [t - 1, t, t + 1] for t in range(LENGTH)]
    if letter in "AX":
        return softmax_attention(f.attention, x, x if letter == "A" else memory,
                                 causal and letter == "A")
    if letter == "C":
        weight, bias = f.conv.weight, f.conv.bias
        sums = [sum(x[:, s] @ weight[..., tap].T for tap, s in enumerate(near) if 0 <= s < LENGTH)
                for near in neighbours]
        return 0.2 * torch.stack([bias + part for part in sums], dim=1)
    if letter == "F":
        up, down = f[0], f[3]
        z = x @ up.weight.T + up.bias
        inside = z.clamp(min=0) if activation == "relu" else z * (1 + torch.erf(z / 2**0.5)) / 2
        return inside @ down.weight.T + down.bias
    if letter == "G":
        inside, out = f.passing.inside(), f.passing.out()
        senders = [[s for s in ((t - 1,) if causal else (t - 1, t + 1)) if 0 <= s < LENGTH]
                   for t in range(LENGTH)]
        one = torch.ones(len(x), 1, dtype=x.dtype)

        def message(s, t):
            hidden = F.linear(torch.cat([x[:, s], x[:, t], one], -1), *inside).relu()
            return F.linear(hidden, *out)

        return torch.stack([sum((message(s, t) for s in senders[t]), torch.zeros_like(x[:, t]))
                            for t in range(LENGTH)], dim=1)
    # M, as the slide has it
    share = (x @ f.gate.weight.T + f.gate.bias).softmax(-1)
    kept = share * (share >= share.sort(dim=-1, descending=True).values[..., 1:2])
    kept = kept / kept.sum(-1, keepdim=True)
    return torch.stack([expert(x) for expert in f.experts], -1).mul(kept.unsqueeze(-2)).sum(-1)


@pytest.mark.parametrize("causal", [False, True])
@every_norm
@pytest.mark.parametrize("letter, activation", [*((letter, "relu") for letter in "ACFGMX"),
                                                ("F", "gelu")])
def test_a_step_is_its_equation(letter, activation, norm_at, causal):
    torch.manual_seed(0)
    options = config(norm_at=norm_at, causal=causal, activation=activation)
    step, x, memory = make_step(letter, options).double().eval(), vectors(), vectors(5, seed=1)
    y = step(x, memory) if letter == "X" else step(x)
    f = partial(by_hand, letter, step.f, causal=causal, memory=memory, activation=activation)
    assert_close(y, layer_norm(x + f(x)) if norm_at == "post" else x + f(layer_norm(x)), **CLOSE)


@every_norm
@pytest.mark.parametrize("kind", [*KINDS, "G", "F", "AFC", "GFA"])
def test_a_network_is_its_steps_in_the_order_of_the_letters(kind, norm_at):
    model, x, letters = build(kind, norm_at=norm_at), vectors(), KINDS.get(kind, kind)
    expected = x
    for block in model.blocks:
        assert "".join(block.steps) == letters
        for letter in letters:
            expected = block.steps[letter](expected)
    assert_close(model(x), layer_norm(expected) if norm_at == "pre" else expected, **CLOSE)
    assert_close(model(x), layer_norm(model(x)), rtol=0, atol=1e-3)  # either way it ends normalised
    ahead = future_influence(model, x)  # which it reads as published, and says so
    assert model.leaks == bool(set(letters) - {"F"}) == (ahead > 1e-4) == (ahead > 0)
    if "G" in letters:
        assert_close(model(x, path_graph(LENGTH, typed=False)), model(x), rtol=0, atol=0)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_rounds_of_messages_follow_each_other_before_the_norm(depth):
    torch.manual_seed(0)
    step, x = make_step("G", config(depth=depth)).double().eval(), vectors()
    rounds, h = [step.f.passing, *step.f.later], x
    for passing in rounds:
        h = passing(h, path_graph(LENGTH, typed=False))
    assert len(rounds) == depth
    assert_close(step(x), layer_norm(h), **CLOSE)
    reads = influence(step, x) > 0
    distance = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
    assert (reads == (distance.abs() <= depth)).all()


@every_kind
def test_post_ln_ends_with_a_norm_of_its_own_where_that_is_asked_for(kind):
    model, plain, x = build(kind, final_norm=True), build(kind), vectors()
    assert isinstance(plain.norm, torch.nn.Identity)
    plain.load_state_dict(model.state_dict(), strict=False)
    with torch.no_grad():
        model.norm.weight.mul_(2)
        model.norm.bias.add_(3)
    assert_close(model(x), 2 * layer_norm(plain(x)) + 3, **CLOSE)


@every_norm
def test_a_decoder_block_is_listing_2(norm_at):
    model, x, memory = build("lite", GeometricDecoder, layers=1,
                             norm_at=norm_at), vectors(), vectors(5, seed=1)
    A, X, C, F = model.blocks[0].steps.values()
    y = F(C(X(A(x), memory)))
    assert_close(model(x, memory), layer_norm(y) if norm_at == "pre" else y, **CLOSE)


def test_positions_are_sinusoidal_or_learned_and_none_are_the_default():
    plain, x = build("lite"), vectors()
    position = torch.zeros(LENGTH, WIDTH, dtype=torch.float64)
    for t in range(LENGTH):
        for i in range(WIDTH // 2):
            angle = t / 10000 ** (2 * i / WIDTH)
            position[t, 2 * i], position[t, 2 * i + 1] = math.sin(angle), math.cos(angle)
    assert_close(build("lite", positions="sinusoidal")(x), plain(x + position), **CLOSE)
    assert sinusoids(x[..., :5]).shape == (LENGTH, 5)
    learned = build("lite", positions="learned", max_length=9)
    plain.load_state_dict(learned.state_dict(), strict=False)
    assert_close(learned(x), plain(x + learned.position[:LENGTH]), rtol=0, atol=0)
    assert (learned(x) - plain(x)).abs().max() > 1e-3 and not hasattr(plain, "position")


# ---------------------------------------------------------------- the future

@every_norm
@every_kind
def test_a_causal_network_reads_its_past_and_no_future(kind, norm_at):
    model = build(kind, causal=True, norm_at=norm_at)
    assert future_influence(model, vectors()) == 0 and not model.leaks
    assert influence(model, vectors())[torch.ones(LENGTH, LENGTH).tril() > 0].min() > 0


@pytest.mark.parametrize("changes", [{"triangles": True}, {"relations": 2}, {"normalise": True},
                                     {"triangles": True, "normalise": True}])
def test_no_option_of_the_graph_breaks_causality(changes):
    assert future_influence(build("full", causal=True, **changes), vectors()) == 0


@every_kind
def test_attention_may_be_masked_by_itself(kind):
    model, distance = build(kind, masked=True), torch.arange(LENGTH) - torch.arange(LENGTH)[:, None]
    reads = influence(model, vectors()) > 0
    ahead = len(model.blocks) if kind in ("lite", "full") else 0
    assert (reads == (distance <= ahead)).all() and model.leaks == (ahead > 0)
    causal = build(kind, causal=True)
    assert torch.equal(build(kind, causal=True, masked=True)(vectors()), causal(vectors()))


@every_norm
@every_kind
def test_a_decoder_reads_no_future_unless_published(kind, norm_at):
    memory = vectors(5, seed=1)
    for published in (False, True):
        model = build(kind, GeometricDecoder, {"published": published}, norm_at=norm_at)
        ahead = future_influence(partial(model, memory=memory), vectors())
        assert model.leaks == (published and kind in ("lite", "full"))
        assert ahead > 1e-4 if model.leaks else ahead == 0


# ---------------------------------------------------------------- graphs

def test_relations_of_the_default_graph_are_directions():
    model, x = build("full", relations=2), vectors()
    assert_close(model(x, path_graph(LENGTH)), model(x), rtol=0, atol=0)


def test_a_graph_that_reads_ahead_is_refused_by_a_causal_network():
    model = build("full", causal=True)
    graph = path_graph(LENGTH, causal=True, typed=False)
    assert future_influence(lambda x: model(x, graph), vectors()) == 0
    with pytest.raises(ValueError,
                       match="graph must be causal in a causal model, got one that isn't"):
        model(vectors(), path_graph(LENGTH, typed=False))


# ---------------------------------------------------------------- experts

logits = st.builds(lambda seed, experts, scale: scale * normal(2, 9, experts, seed=seed),
                   st.integers(0, 2**31), st.integers(1, 6), st.floats(0, 30))


@given(logits=logits, data=st.data())
def test_k_weights_are_positive_and_sum_to_1(logits, data):
    k = data.draw(st.integers(1, logits.shape[-1]))
    weights = top_k_weights(logits, k)
    assert_close(weights.sum(-1), torch.ones(2, 9, dtype=torch.float64), **CLOSE)
    assert ((weights > 0).sum(-1) == k).all()
    chosen = weights > 0
    assert (logits.masked_fill(~chosen, torch.inf).amin(-1)
            >= logits.masked_fill(chosen, -torch.inf).amax(-1)).all()


@given(logits=logits, data=st.data())
def test_balance_is_1_where_experts_are_used_alike(logits, data):
    k, experts = data.draw(st.integers(1, logits.shape[-1])), logits.shape[-1]
    # each expert meets each logit once
    turns = torch.stack([logits[0, 0].roll(shift) for shift in range(experts)])
    assert load_balance(turns, k).item() == pytest.approx(1, abs=1e-12)
    even = torch.zeros(5, experts, dtype=torch.float64)
    assert load_balance(even, k).item() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_balance_is_experts_over_k_where_k_experts_do_everything(k):
    logits = torch.tensor([0.0] * k + [-1e3] * (4 - k), dtype=torch.float64).expand(10, -1)
    assert load_balance(logits, k).item() == pytest.approx(4 / k, abs=1e-12)


# ---------------------------------------------------------------- use

@every_norm
@every_kind
def test_every_weight_learns_from_the_first_batch(kind, norm_at):
    model = build(kind, norm_at=norm_at, triangles=True, positions="learned", max_length=LENGTH)
    # a LayerNorm's square sum is constant
    model(torch.cat([vectors(seed=s) for s in range(5)])).pow(3).sum().backward()
    largest = max(p.grad.abs().max() for p in model.parameters())
    silent = {name for name, p in model.named_parameters() if p.grad.abs().max() <= 1e-10 * largest}
    assert silent == set()


@every_kind
def test_a_batch_leaves_nothing_behind(kind):
    model = build(kind)
    before = pickle.dumps(model)
    model(vectors())
    assert pickle.dumps(model) == before


ACTS = {"A": {"weights", "A"}, "C": {"C"}, "F": {"hidden", "F"}, "G": {"G"}, "M": {"M"},
        "X": {"weights", "X"}}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("letter", ACTS)
def test_dropout_acts_at_its_places_alone(letter, place):
    torch.manual_seed(0)
    step = make_step(letter, config(dropout=0.5, dropout_at=(place,))).double().train()
    read = (vectors(), vectors(seed=1)) if letter == "X" else (vectors(),)
    assert torch.equal(step(*read), step(*read)) == (place not in ACTS[letter])


@every_norm
def test_what_a_step_adds_is_what_dropout_acts_on(norm_at):
    torch.manual_seed(0)
    step, x = make_step("C", config(norm_at=norm_at)).double(), vectors()
    step.dropout = torch.nn.Threshold(0.0, 7.0)   # in its place: 7 for all that isn't above 0
    f = step.f(x if norm_at == "post" else layer_norm(x))
    added = torch.where(f > 0, f, 7.0)
    assert_close(step(x), layer_norm(x + added) if norm_at == "post" else x + added, **CLOSE)
