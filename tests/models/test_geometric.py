"""The geometric Transformers. What their published forms compute is compared in tests/parity."""

import pickle
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from shared import normal
from torch.testing import assert_close

from geolab.models import KINDS, GeometricConfig, GeometricDecoder, GeometricTransformer, path_graph
from geolab.models.geometric import PLACES, load_balance, make_step, top_k_weights
from geolab.probes import future_influence, influence

CLOSE = dict(rtol=0, atol=1e-12)
WIDTH, LENGTH = 8, 7
ahead_of = torch.arange(LENGTH) - torch.arange(LENGTH)[:, None]  # of the position that is read

every_kind = pytest.mark.parametrize("kind", KINDS)
every_norm = pytest.mark.parametrize("norm_at", ["post", "pre"])


def vectors(length=LENGTH, seed=0):
    return normal(3, length, WIDTH, seed=seed)


def config(**changes):
    return GeometricConfig(**{"width": WIDTH, "heads": 2, "hidden": 12} | changes)


def step_of(letter, **changes):
    torch.manual_seed(0)
    return make_step(letter, config(**changes)).double()


def build(kind, make=GeometricTransformer, options=None, **changes):
    torch.manual_seed(0)
    return make(config(**changes), kind, **(options or {})).double().eval()


def layer_norm(x):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()


# ---------------------------------------------------------------- what is put together

@every_norm
@pytest.mark.parametrize("letter", "ACFGMX")
def test_a_norm_stands_before_a_step_or_after_its_sum(letter, norm_at):
    step, x = step_of(letter, norm_at=norm_at).eval(), vectors()
    memory = (vectors(5, seed=1),) if letter == "X" else ()
    wanted = (layer_norm(x + step.f(x, *memory)) if norm_at == "post"
              else x + step.f(layer_norm(x), *memory))
    assert_close(step(x, *memory), wanted, **CLOSE)


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
    ahead = future_influence(model, x)  # which it reads as published, and says so
    assert model.leaks == bool(set(letters) - {"F"}) == (ahead > 1e-4) == (ahead > 0)
    if "G" in letters:
        assert_close(model(x, path_graph(LENGTH, typed=False)), model(x), rtol=0, atol=0)


@every_norm
def test_a_decoder_block_is_listing_2(norm_at):
    model, x = build("lite", GeometricDecoder, layers=1, norm_at=norm_at), vectors()
    A, X, C, F = model.blocks[0].steps.values()
    memory = vectors(5, seed=1)
    y = F(C(X(A(x), memory)))
    assert_close(model(x, memory), layer_norm(y) if norm_at == "pre" else y, **CLOSE)


@every_kind
def test_post_ln_ends_with_a_norm_of_its_own_where_that_is_asked_for(kind):
    model, plain, x = build(kind, final_norm=True), build(kind), vectors()
    plain.load_state_dict(model.state_dict(), strict=False)
    with torch.no_grad():
        model.norm.weight.mul_(2)
        model.norm.bias.add_(3)
    assert_close(model(x), 2 * layer_norm(plain(x)) + 3, **CLOSE)


def test_learned_positions_are_added_to_the_input_and_start_small():
    learned, plain, x = build("lite", positions="learned"), build("lite"), vectors()
    plain.load_state_dict(learned.state_dict(), strict=False)
    assert_close(learned(x), plain(x + learned.position[:LENGTH]), rtol=0, atol=0)
    assert learned.position.std().item() == pytest.approx(0.02, rel=0.1)


# ---------------------------------------------------------------- the future

@every_norm
@every_kind
def test_a_causal_network_reads_its_past_and_no_future(kind, norm_at):
    model = build(kind, causal=True, norm_at=norm_at)
    assert future_influence(model, vectors()) == 0 and not model.leaks
    assert influence(model, vectors())[ahead_of <= 0].min() > 0


@pytest.mark.parametrize("letter, furthest", [("A", LENGTH), ("C", 2), ("F", 0), ("G", 1),
                                              ("M", 0)])
def test_a_causal_step_reads_no_further_back_than_it_says(letter, furthest):
    reads = influence(step_of(letter, causal=True).eval(), vectors()) > 0
    assert (reads == ((ahead_of <= 0) & (ahead_of >= -furthest))).all()


@pytest.mark.parametrize("changes", [{"triangles": True}, {"relations": 2}, {"normalise": True},
                                     {"triangles": True, "normalise": True}])
def test_no_option_of_the_graph_breaks_causality(changes):
    assert future_influence(build("full", causal=True, **changes), vectors()) == 0


@every_kind
def test_attention_may_be_masked_by_itself(kind):
    model = build(kind, masked=True)
    ahead = len(model.blocks) if kind in ("lite", "full") else 0
    assert ((influence(model, vectors()) > 0) == (ahead_of <= ahead)).all()
    assert model.leaks == (ahead > 0)
    causal = build(kind, causal=True)
    assert torch.equal(build(kind, causal=True, masked=True)(vectors()), causal(vectors()))


@every_kind
def test_a_decoder_reads_no_future_unless_published(kind):
    for published in (False, True):
        model = build(kind, GeometricDecoder, {"published": published})
        ahead = future_influence(partial(model, memory=vectors(5, seed=1)), vectors())
        assert model.leaks == (published and kind in ("lite", "full"))
        assert ahead > 1e-4 if model.leaks else ahead == 0


def test_relations_of_the_default_graph_are_directions_and_a_causal_network_takes_no_other():
    model, x = build("full", relations=2), vectors()
    assert_close(model(x, path_graph(LENGTH)), model(x), rtol=0, atol=0)
    causal = build("full", causal=True)
    graph = path_graph(LENGTH, causal=True, typed=False)
    assert torch.equal(causal(x, graph), causal(x))
    with pytest.raises(ValueError, match="graph must be causal in a causal model, got one that"):
        causal(x, path_graph(LENGTH, typed=False))


# ---------------------------------------------------------------- experts

logits = st.builds(lambda seed, experts, scale: scale * normal(2, 9, experts, seed=seed),
                   st.integers(0, 2**31), st.integers(1, 6), st.floats(0, 30))


@given(logits=logits, data=st.data())
def test_k_weights_are_positive_and_sum_to_1(logits, data):
    k = data.draw(st.integers(1, logits.shape[-1]))
    weights = top_k_weights(logits, k)
    assert_close(weights.sum(-1), torch.ones(2, 9, dtype=torch.float64), **CLOSE)
    chosen = weights > 0
    assert (chosen.sum(-1) == k).all()
    assert (logits.masked_fill(~chosen, torch.inf).amin(-1)
            >= logits.masked_fill(chosen, -torch.inf).amax(-1)).all()


@given(logits=logits, data=st.data())
def test_balance_is_1_where_experts_are_used_alike_and_more_where_k_do_everything(logits, data):
    k, experts = data.draw(st.integers(1, logits.shape[-1])), logits.shape[-1]
    # each expert meets each logit once
    turns = torch.stack([logits[0, 0].roll(shift) for shift in range(experts)])
    even = torch.zeros(5, experts, dtype=torch.float64)
    few = (torch.arange(experts) < k).double().sub(1).mul(1e3).expand(10, -1)
    for used, wanted in ((turns, 1), (even, 1), (few, experts / k)):
        assert load_balance(used, k).item() == pytest.approx(wanted, abs=1e-12)


# ---------------------------------------------------------------- use

@every_norm
@every_kind
def test_every_weight_learns_from_the_first_batch_which_leaves_nothing_behind(kind, norm_at):
    model = build(kind, norm_at=norm_at, triangles=True, positions="learned", max_length=LENGTH)
    before = pickle.dumps(model)
    y = model(torch.cat([vectors(seed=s) for s in range(5)]))
    assert pickle.dumps(model) == before
    y.pow(3).sum().backward()  # a LayerNorm's square sum is constant
    largest = max(p.grad.abs().max() for p in model.parameters())
    assert all(p.grad.abs().max() > 1e-10 * largest for p in model.parameters())


ACTS = {"A": {"weights", "A"}, "C": {"C"}, "F": {"hidden", "F"}, "G": {"G"}, "M": {"M"},
        "X": {"weights", "X"}}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("letter", ACTS)
def test_dropout_acts_at_its_places_alone(letter, place):
    step = step_of(letter, dropout=0.5, dropout_at=(place,)).train()
    read = (vectors(), vectors(seed=1)) if letter == "X" else (vectors(),)
    assert torch.equal(step(*read), step(*read)) == (place not in ACTS[letter])
