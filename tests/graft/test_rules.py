"""Rules for blocks, of a library or of one's own, and what is refused."""

import pickle

import pytest
import torch
from shared import ANYWHERE, AS_THEY_ARE
from torch import nn
from torch.testing import assert_close

from geolab.graft import Grafted, graft, new_parameters, reads_other_positions, rule, rules, ungraft
from geolab.residuals import Additive

WIDTH = 16


@pytest.fixture(autouse=True)
def no_rule_outlives_its_test(monkeypatch):
    monkeypatch.setattr("geolab.graft.rules.OWN", rules.OWN.copy())


class Mix(nn.Linear):
    def __init__(self):
        super().__init__(WIDTH, WIDTH)

    def forward(self, x):
        return super().forward(x).tanh()


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mix, self.other = nn.RMSNorm(WIDTH), Mix(), Mix()

    def forward(self, x):
        x = x + self.mix(self.norm(x))
        return x + 0.5 * self.other(self.norm(x))


class Parallel(Plain):
    def forward(self, x):
        y = self.norm(x)
        return x + self.mix(y) + self.other(y)


class Scaled(Plain):
    def forward(self, x, scale, mask=None):
        y = self.mix(self.norm(x)) * scale
        return x + (y if mask is None else y * mask)


class PostNorm(Plain):
    def forward(self, x):
        return self.norm(x + self.mix(x))


def plain(block):
    return [(block.norm, block.mix), (block.norm, lambda x: 0.5 * block.other(x))]


def network(block, count=3):
    torch.manual_seed(0)
    return nn.Sequential(*(block() for _ in range(count))), torch.randn(2, 5, WIDTH)


def grafted_as_before(model, x, name="mhc"):
    """The grafted model, which computes what it computed before."""
    before = model(x)
    assert_close(graft(model, name)(x), before, rtol=1e-5, atol=1e-5)
    return model


@pytest.mark.parametrize("block, made, name, sublayers", [
    (Plain, plain, "mhc", 2),
    (Parallel, lambda b: [(b.norm, lambda x: b.mix(x) + b.other(x))], "hyper", 1),
    (PostNorm, lambda b: [(None, b.mix, b.norm)], "mhc", 1)])
def test_two_lines_graft_a_block_of_one_s_own(block, made, name, sublayers):
    rule(block, made)
    model = grafted_as_before(*network(block), name)
    assert len(model[0].residuals) == sublayers


def test_what_else_forward_gets_reaches_the_rule():
    rule(Scaled, lambda b, scale=1, mask=None: [
        (b.norm, lambda x: b.mix(x) * scale * (1 if mask is None else mask))])
    model, x = network(Scaled)
    mask = torch.randn(2, 5, 1)
    before = model[1](model[0](x, 2.0, mask=mask), 3.0)
    graft(model, "mhc")
    last = model[2]
    last.mix.weight.data.zero_(), last.mix.bias.data.zero_()  # so that it only reads out
    assert_close(last(model[1](model[0](x, 2.0, mask=mask), 3.0), 1.0), before, rtol=1e-5,
                 atol=1e-5)


def test_a_single_block_and_blocks_that_are_attributes():
    rule(Plain, plain)
    x = torch.randn(2, 5, WIDTH)
    grafted_as_before(Plain(), x)

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.lower, self.upper = Plain(), Plain()

        def forward(self, x):
            return self.upper(self.lower(x))

    model = grafted_as_before(Two(), x)
    assert model.lower(x).shape == (2, 5, 4, WIDTH)


def test_weights_may_have_no_storage_yet():
    rule(Plain, plain)
    with torch.device("meta"):
        model, _ = network(Plain)
        graft(model, "jpmhc")
    assert all(p.is_meta for p in model.parameters())


class Pair(Plain):
    """A block that returns what it has besides x, as transformers' Bloom does."""

    def forward(self, x, mask=None):
        y = self.norm(x)
        return x + self.mix(y), y


class Loop(nn.ModuleList):
    def forward(self, x):
        for block in self:
            x = block(x, mask=None)[0]
        return x


def test_a_block_returns_a_tuple_where_an_f_does():
    rule(Pair, lambda b, mask=None: [(b.norm, lambda y: (b.mix(y), y))])
    grafted_as_before(Loop(Pair() for _ in range(3)), torch.randn(2, 5, WIDTH))
    rule(Pair, lambda b, mask=None: [(b.norm, b.mix)])
    with pytest.raises(ValueError, match="^the rule of Pair must return what forward does, a tup"):
        graft(Loop(Pair() for _ in range(3)), "mhc")


class Counting(nn.Module):
    """A block with statistics of its own, a fixed number of positions, and dropout."""

    def __init__(self):
        super().__init__()
        self.norm, self.seen = nn.LayerNorm(WIDTH), nn.BatchNorm1d(5)
        self.tokens, self.drop = nn.Linear(5, 5), nn.Dropout(0.5)

    def forward(self, x):
        return x + self.update(self.norm(x))

    def update(self, y):
        return self.drop(self.seen(self.tokens(y.mT).mT))


@pytest.mark.parametrize("training", [True, False])
def test_a_trial_leaves_no_trace_and_an_example_checks_what_a_random_x_cannot(training):
    rule(Counting, lambda b: [(b.norm, b.update)])
    model, x = network(Counting)
    model.train(training)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    draws = torch.get_rng_state()
    with pytest.warns(UserWarning, match="graft can't check the rule of Counting.*example"):
        graft(model, "hyper")
    ungraft(model)
    torch.set_rng_state(draws)
    graft(model, "additive", example=x)
    assert torch.equal(torch.get_rng_state(), draws)
    assert all(torch.equal(model.state_dict()[name], value) for name, value in state.items())
    assert all(module.training is training for module in model.modules())
    rule(Counting, lambda b: [(b.norm, b.tokens and b.norm)])
    with pytest.raises(ValueError, match="^the rule of Sequential must compute what its forward"):
        graft(network(Counting)[0], "mhc", example=x)


def test_a_rule_counts_for_subclasses_and_x_may_come_by_name():
    class Sub(Plain):
        pass

    rule(Sub, plain)
    model, x = network(Sub)
    grafted_as_before(model, x)
    state = model[0](x=x)
    assert state.shape == (2, 5, 4, WIDTH) and torch.equal(state, model[0](x))


def test_a_rule_of_one_s_own_may_be_a_lambda_and_the_model_is_pickled():
    rule(Plain, lambda b: plain(b))
    model, x = network(Plain)
    again = pickle.loads(pickle.dumps(graft(model, "mhc")))
    assert torch.equal(again(x), model(x))
    data = pickle.dumps(model)
    del rules.OWN[Plain]
    with pytest.raises(ValueError, match="^graft must know the block Plain before it is loaded"):
        pickle.loads(data)


def test_what_graft_leaves_is_told_and_comes_back():
    class Tower(nn.Module):
        def __init__(self):
            super().__init__()
            self.lower = nn.ModuleList(Plain() for _ in range(3))
            self.upper = nn.ModuleList(Scaled() for _ in range(2))

    rule(Plain, plain)
    model = Tower()
    with pytest.warns(UserWarning, match="graft leaves upper, 2 blocks of class Scaled"):
        graft(model, "mhc")
    assert {len(group) for group in new_parameters(model).values()} != {0}
    ungraft(model)
    assert not [module for module in model.modules() if isinstance(module, Grafted)]
    for undone in (ungraft, new_parameters):
        with pytest.raises(ValueError, match="^model must "):
            undone(model)


# ---------------------------------------------------------------- refusals

@pytest.mark.parametrize("batch_first", [True, False])
def test_an_input_without_a_batch_and_a_nested_one(batch_first):
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 32, batch_first=batch_first, norm_first=True)
    model = graft(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), "mhc")
    for length in (WIDTH, 5):
        with pytest.raises(ValueError, match=r"^x of a grafted TransformerEncoderLayer must be "):
            model(torch.randn(length, WIDTH))
    with pytest.raises(ValueError, match="got a nested tensor"):
        model.layers[0](torch.nested.nested_tensor([torch.randn(3, WIDTH), torch.randn(2, WIDTH)]))


def test_what_stands_between_blocks_must_keep_the_state():
    rule(Plain, plain)
    model, x = network(Plain)
    graft(model, "mhc")
    with pytest.raises(ValueError, match=r"^a grafted Plain must get the state .*\(4, 16\), got "
                       r"shape \(2, 5, 16\): graft hands states"):
        model[1](model[0](x).mean(2))


def test_an_example_sees_what_stands_between_blocks():
    class Skips(nn.Sequential):
        def forward(self, x):
            y = self[0](x)
            return self[2](self[1](y + x))  # a skip from outside meets the state

    rule(Plain, plain)
    model = Skips(*(Plain() for _ in range(3)))
    with pytest.raises(ValueError, match="^graft must fit the model on this example, its rules"):
        graft(model, "mhc", example=torch.randn(2, 5, WIDTH))
    assert type(model[0]) is Plain


@pytest.mark.parametrize("name", ["hyper", "mhc", "jpmhc"])
def test_a_grafted_network_is_exported_with_its_gradients(name):
    rule(Plain, plain)
    model, x = network(Plain, count=2)
    graft(model, name)
    program = torch.export.export(model, (x,)).module()
    assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)
    program(x).sum().backward()


class Other(nn.Module):
    """nanoGPT's names, and another forward."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(WIDTH), Mix()
        self.ln_2, self.mlp = nn.LayerNorm(WIDTH), Mix()

    def forward(self, x):
        return self.ln_2(x + self.attn(self.ln_1(x)) + self.mlp(x))


class Louder(nn.TransformerEncoderLayer):
    def forward(self, src, *args, **kwargs):
        return 2 * super().forward(src, *args, **kwargs)


def covered():
    """A network of which one block has a forward of its own."""
    model, _ = network(Plain)
    model[1].forward = model[1].forward
    return model


@pytest.mark.parametrize("make, message", [
    (lambda: torch.compile(network(Plain)[0]), "model must be grafted before it is wrapped, got O"),
    (lambda: nn.DataParallel(network(Plain)[0]), "model must be grafted before .*, got Data"),
    (lambda: network(PostNorm)[0], r"model must have blocks that graft knows \(.*GPT2Block.*\), got"
                                   " Sequential with PostNorm; geolab.graft.rule tells it"),
    (Mix, "model must have blocks .* got Mix with no list of blocks"),
    (lambda: network(Other)[0], "the rule of Other must compute what its forward does"),
    (lambda: nn.Sequential(Louder(WIDTH, 2, batch_first=True, norm_first=True)),
     "model must have blocks that graft knows"),
    (lambda: graft(network(Plain)[0], "mhc"), "model must not be grafted yet"),
    (lambda: nn.Sequential(*(nn.Sequential(Plain()) for _ in range(3))),
     "the blocks of a stack must have one parent, got 3"),
    (covered, "the forward of Plain must be that of its class")])
def test_a_model_that_does_not_fit_is_named(make, message):
    rule(Plain, plain)
    with pytest.raises(ValueError, match=f"^{message}"):
        graft(make(), "mhc")


@pytest.mark.parametrize("block, made, message", [
    (Plain, lambda b: [(b.norm, lambda x: b.nothing(x)), (b.norm, b.other)],
     "^the rule of Plain must run where its forward does"),
    (Plain, lambda b: [(b.norm, b.mix), (b.norm, b.other)],
     r"^the rule of Plain must compute what its forward does, got a difference of \d"),
    (Scaled, lambda b, scale: [(b.norm, b.mix)],
     "^the rule of Scaled must be callable with the block alo"),
    (Scaled, lambda b, scale=1, mask=None: [b.mix], "^the rule of Scaled must give a list of")])
def test_a_rule_that_does_not_fit_is_named(block, made, message):
    rule(block, made)
    with pytest.raises(ValueError, match=message):
        graft(network(block)[0], "mhc")


@pytest.mark.parametrize("name, options, error, message", [
    ("mch", {}, ValueError, "^unknown residual 'mch'"),
    ("mhc", {"stream": 2}, TypeError, "^residual 'mhc' has no option 'stream'"),
    ("mhc", {"plain": "yes"}, ValueError, "^plain must be one of True, False"),
    ("jpmhc", {"ends": "split"}, ValueError, "^the residual must take the network's 16 features, "
                                             "got 'jpmhc' with {'ends': 'split'}, which takes 64")])
def test_a_residual_that_does_not_fit_is_named(name, options, error, message):
    rule(Plain, plain)
    with pytest.raises(error, match=message):
        graft(network(Plain)[0], name, **options)


@pytest.mark.parametrize("name", sorted(set(ANYWHERE) - set(AS_THEY_ARE)))
def test_a_residual_that_doesn_t_start_plain_is_refused(name):
    rule(Plain, plain)
    model, x = network(Plain)
    keys, before = list(model.state_dict()), model(x)
    with pytest.raises(ValueError, match=rf"^residual '{name}' must start as the plain network, "
                       r"with its options left as they are: its output starts \d\S* away.*"
                       r"plain=False"):
        graft(model, name)
    assert list(model.state_dict()) == keys and type(model[0]) is Plain
    assert not torch.allclose(graft(model, name, plain=False)(x), before, atol=1e-4)


def test_a_post_norm_around_channels_and_around_rescaled_streams():
    rule(PostNorm, lambda b: [(None, b.mix, b.norm)])
    model, _ = network(PostNorm)
    with pytest.raises(ValueError, match=r"normalises streams of width 16, and the state of "
                       r"'delta-matrix' has shape \(1, 1, 16, 4\)"):
        graft(model, "delta-matrix", plain=False)
    with pytest.raises(ValueError, match="^residual 'jpmhc' must start as the plain network"):
        graft(model, "jpmhc")


def test_a_norm_without_a_weight():
    class Bare(Plain):
        def __init__(self):
            super().__init__()
            self.norm = nn.Identity()

    rule(Plain, plain)
    with pytest.raises(ValueError, match="^the rule of Bare must say the width.*width="):
        graft(network(Bare)[0], "mhc")
    rule(Plain, plain, width=WIDTH)
    grafted_as_before(*network(Bare))


def test_which_residuals_read_other_positions():
    reading = [name for name in ANYWHERE if reads_other_positions(name, WIDTH)]
    assert reading == ["delta-matrix", "emhc-cayley", "emhc-hybrid", "emhc-geodesic",
                       "emhc-stream", "benchmark-delta"]
    assert not reads_other_positions("emhc-hybrid", WIDTH, pool="token")
    assert reads_other_positions("emhc-hybrid", WIDTH, pool="sequence")
    assert not reads_other_positions("delta-matrix", WIDTH, compress="channel")
    assert reads_other_positions("delta-matrix", WIDTH, compress="channel", expand="conv")


# ---------------------------------------------------------------- residuals are made once

class Late(Additive):
    """Its last residual alone reads other positions, where it reads the state out."""

    made: list[int] = []

    def __init__(self, width, index=0, count=1):
        super().__init__(width, index, count)
        self.made.append(index)
        self.scale, self.calls = nn.Parameter(torch.randn(width)), 0

    def forward(self, state, sublayer):
        self.calls += 1
        return state + sublayer(state)

    def reduce(self, state):
        return state + self.scale * state.roll(1, -2)


@pytest.mark.parametrize("residual, reads", [(Late, True), (Additive, False)])
def test_the_residuals_are_made_once_and_measured_as_they_are(residual, reads):
    rule(Plain, plain)
    model, _ = network(Plain, count=5)
    Late.made.clear()
    torch.manual_seed(1)
    graft(model, residual, plain=False)
    made = [part for block in model for part in block.residuals]
    assert len(made) == 10 and all(block.reads_other_positions == reads for block in model)
    if residual is Late:
        torch.manual_seed(1)
        assert Late.made == list(range(10)) and all(part.calls == 0 for part in made)
        assert all(torch.equal(part.scale, torch.randn(WIDTH)) for part in made)


def test_a_deep_network_is_measured_as_deep_as_it_is():
    class Drift(Additive):  # each sublayer alone stays close enough, but not twenty of them
        def forward(self, state, sublayer):
            return state + (1 + 1e-6 * max(0, self.index - 7)) * sublayer(state)

        def __init__(self, width, index=0, count=1):
            super().__init__(width, index, count)
            self.index = index

    rule(Plain, plain)
    graft(network(Plain, count=4)[0], Drift)
    with pytest.raises(ValueError, match="^residual 'Drift' must start as the plain network"):
        graft(network(Plain, count=30)[0], Drift)


def test_nothing_is_drawn_for_a_network_without_storage():
    rule(Plain, plain)
    with torch.device("meta"):
        model = nn.Sequential(Plain(), Plain())
    torch.manual_seed(0)
    before = torch.get_rng_state()
    graft(model, "mhc")
    assert torch.equal(torch.get_rng_state(), before)
