"""Rules for blocks of one's own, what a trial leaves behind, and all that is refused."""

import io
import pickle

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from geolab.graft import graft, load, new_parameters, residual_stream, rule, rules, save, ungraft
from geolab.residuals import Additive

WIDTH = 16


@pytest.fixture(autouse=True)
def rules_of_this_test(monkeypatch):
    """Each test has a rule for Plain, and no rule outlives its test."""
    monkeypatch.setattr("geolab.graft.rules.OWN", rules.OWN.copy())
    rule(Plain, plain)


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


class Caching(Plain):
    def forward(self, x, cache=None):
        return super().forward(x)


class Bare(Plain):
    def __init__(self):
        super().__init__()
        self.norm = nn.Identity()


class Counting(nn.Module):
    """A block with statistics of its own, a fixed number of positions, and dropout."""

    def __init__(self):
        super().__init__()
        self.norm, self.seen = nn.LayerNorm(WIDTH), nn.BatchNorm1d(5)
        self.tokens, self.drop, self.calls = nn.Linear(5, 5), nn.Dropout(0.5), 0
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.calls, self.count = self.calls + 1, self.count + 1
        return x + self.update(self.norm(x))

    def update(self, y):
        return self.drop(self.seen(self.tokens(y.mT).mT))


# ---------------------------------------------------------------- rules of one's own

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

    def run():
        return model[2](model[1](model[0](x, 2.0, mask=mask), 3.0), scale=1.5)

    before = run()
    graft(model, "mhc")
    assert_close(run(), before, rtol=1e-5, atol=1e-5)


def test_a_single_block_and_blocks_that_are_attributes_and_x_by_name():
    class Sub(Plain):  # for which the rule of its parent counts
        pass

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.lower, self.upper = Plain(), Sub()

        def forward(self, x):
            return self.upper(self.lower(x))

    x = torch.randn(2, 5, WIDTH)
    grafted_as_before(Plain(), x)
    lower = grafted_as_before(Two(), x).lower
    assert lower(x=x).shape == (2, 5, 4, WIDTH) and torch.equal(lower(x=x), lower(x))


def test_a_block_returns_a_tuple_where_an_f_does():
    rule(Pair, lambda b, mask=None: [(b.norm, lambda y: (b.mix(y), y))])
    grafted_as_before(Loop(Pair() for _ in range(3)), torch.randn(2, 5, WIDTH))


def test_the_model_is_pickled_though_its_rule_can_t_be():
    rule(Plain, lambda block: plain(block))
    model, x = network(Plain)
    data = pickle.dumps(graft(model, "mhc"))
    assert torch.equal(pickle.loads(data)(x), model(x))
    del rules.OWN[Plain]
    with pytest.raises(ValueError, match="^graft must know the block Plain before it is loaded"):
        pickle.loads(data)


def test_a_rule_says_the_width_where_no_norm_does():
    with pytest.raises(ValueError, match="^the rule of Bare must say the width.*width="):
        graft(network(Bare)[0], "mhc")
    rule(Plain, plain, width=WIDTH)
    grafted_as_before(*network(Bare))


@pytest.mark.parametrize("name", ["hyper", "mhc", "jpmhc"])
def test_a_grafted_network_is_exported_with_its_gradients(name):
    model, x = network(Plain, count=2)
    graft(model, name)
    program = torch.export.export(model, (x,)).module()
    assert_close(program(x), model(x), rtol=1e-5, atol=1e-5)
    program(x).sum().backward()


# ---------------------------------------------------------------- what a trial and a graft leave

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
    assert all(block.calls == 0 for block in model)
    assert all(module.training is training for module in model.modules())
    rule(Counting, lambda b: [(b.norm, b.tokens and b.norm)])
    with pytest.raises(ValueError, match="^the rule of Sequential must compute what its forward"):
        graft(network(Counting)[0], "mhc", example=x)


def test_nothing_is_drawn_for_a_network_without_storage():
    with torch.device("meta"):
        model, _ = network(Plain)
    before = torch.get_rng_state()
    graft(model, "jpmhc")
    assert torch.equal(torch.get_rng_state(), before)
    assert all(p.is_meta for p in model.parameters())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("several", [nn.ModuleList, lambda blocks: nn.Sequential(*blocks)])
def test_what_graft_leaves_is_told(several):
    with pytest.warns(UserWarning, match="leaves a Linear between the blocks"):
        graft(several([Plain(), nn.Linear(WIDTH, WIDTH), Plain()]), "mhc")
    graft(several([nn.Linear(WIDTH, WIDTH), Plain(), Plain(), nn.Linear(WIDTH, WIDTH)]), "mhc")
    tower = nn.ModuleDict({"lower": several([Plain(), Plain()]),
                           "upper": several([Scaled(), Scaled()])})
    with pytest.warns(UserWarning, match="graft leaves upper, 2 blocks of class Scaled"):
        graft(tower, "mhc")
    found = [p for group in new_parameters(tower).values() for p in group]
    assert set(found) == {p for key, p in tower.named_parameters() if ".residuals." in key}


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


def test_the_residuals_are_made_once_and_measured_as_they_are():
    model, _ = network(Plain, count=5)
    Late.made.clear()
    torch.manual_seed(1)
    graft(model, Late, plain=False)
    made = [part for block in model for part in block.residuals]
    assert Late.made == list(range(10)) and all(part.calls == 0 for part in made)
    torch.manual_seed(1)
    assert all(torch.equal(part.scale, torch.randn(WIDTH)) for part in made)
    assert all(block.reads_other_positions for block in model)


class Drift(Additive):
    """Each sublayer alone stays close enough to the plain one, but not twenty of them."""

    def __init__(self, width, index=0, count=1):
        super().__init__(width, index, count)
        self.more = 1e-6 * max(0, index - 7)

    def forward(self, state, sublayer):
        return state + (1 + self.more) * sublayer(state)


def test_a_deep_network_is_measured_as_deep_as_it_is():
    graft(network(Plain, count=4)[0], Drift)
    with pytest.raises(ValueError, match="^residual 'Drift' must start as the plain network"):
        graft(network(Plain, count=30)[0], Drift)


# ---------------------------------------------------------------- refusals

class Skips(nn.Sequential):
    def forward(self, x):
        y = self[0](x)
        return self[2](self[1](y + x))  # a skip from outside meets the state


def blocks(block=Plain):
    return network(block)[0]


def with_forward(model):
    model[1].forward = model[1].forward
    return model


def with_rule(block, made, model=None):
    rule(block, made)
    graft(model or blocks(block), "mhc")


def with_cache(cache):
    rule(Caching, lambda block, cache=None: plain(block))
    model = graft(blocks(Caching), "delta-matrix", plain=False)
    model[0](torch.randn(1, 3, WIDTH), cache=cache)


def without(cut, name="mhc", **options):
    """A part of a stack is left of a grafted network."""
    model = graft(nn.Sequential(blocks()), name, **options)
    model[0] = model[0][cut]
    model(torch.randn(2, 5, WIDTH))


def written(content):
    file = io.BytesIO()
    torch.save(content, file)
    file.seek(0)
    return file


def post_norm(name, **options):
    rule(PostNorm, lambda b: [(None, b.mix, b.norm)])
    graft(blocks(PostNorm), name, **options)


REFUSED = [  # a call, and how its message begins
    # models
    (lambda: graft(torch.compile(blocks()), "mhc"), "model must be grafted before it is wrapped"),
    (lambda: graft(blocks(PostNorm), "mhc"), r"model must have blocks that graft knows "
     r"\(.*GPT2Block.*\), got Sequential with PostNorm; geolab.graft.rule tells it"),
    (lambda: graft(Mix(), "mhc"), "model must have blocks .* got Mix with no list of blocks"),
    (lambda: graft(graft(blocks(), "mhc"), "mhc"), "model must not be grafted yet"),
    (lambda: graft(nn.Sequential(*(nn.Sequential(Plain()) for _ in range(3))), "mhc"),
     "the blocks of a stack must have one parent, got 3"),
    (lambda: graft(with_forward(blocks()), "mhc"), "the forward of Plain must be that of its cl"),
    *((lambda only=only: graft(nn.ModuleDict({"a": blocks(), "b": blocks()}), "mhc", only=only),
       "only must be a list of names among 'a', 'b', got") for only in ("a", ["c"])),
    (lambda: ungraft(blocks()), "model must be grafted"),
    (lambda: new_parameters(blocks()), "model must have residuals with parameters"),
    # rules
    (lambda: with_rule(Plain, lambda b: [(b.norm, lambda x: b.nothing(x)), (b.norm, b.other)]),
     "the rule of Plain must run where its forward does"),
    (lambda: with_rule(Plain, lambda b: [(b.norm, b.mix), (b.norm, b.other)]),
     r"the rule of Plain must compute what its forward does, got a difference of \d"),
    (lambda: with_rule(Scaled, lambda b, scale: [(b.norm, b.mix)]),
     "the rule of Scaled must be callable with the block alo"),
    (lambda: with_rule(Scaled, lambda b, scale=1, mask=None: [b.mix]),
     "the rule of Scaled must give a list of"),
    (lambda: with_rule(Pair, lambda b, mask=None: [(b.norm, b.mix)], Loop([Pair(), Pair()])),
     "the rule of Pair must return what forward does, a tup"),
    (lambda: graft(Skips(*blocks()), "mhc", example=torch.randn(2, 5, WIDTH)),
     "graft must fit the model on this example, its rules"),
    # residuals
    (lambda: graft(blocks(), "mhc", plain="yes"), "plain must be one of True, False"),
    (lambda: graft(blocks(), "jpmhc", ends="split"), "the residual must take the network's 16 "
     "features, got 'jpmhc' with {'ends': 'split'}, which takes 64"),
    (lambda: post_norm("delta-matrix", plain=False), "a norm after the residual normalises streams "
     r"of width 16, and the state of 'delta-matrix' has shape \(1, 1, 16, 4\)"),
    (lambda: post_norm("jpmhc"), "residual 'jpmhc' must start as the plain network"),
    # inputs
    (lambda: graft(blocks(), "mhc")[0](torch.randn(5, WIDTH)),
     r"x of a grafted Plain must be .* got shape \(5, 16\)"),
    (lambda: graft(blocks(), "mhc")[0](torch.nested.nested_tensor([torch.randn(3, WIDTH)])),
     "x of a grafted .* got a nested tensor"),
    (lambda: graft(blocks(), "mhc")[1](torch.randn(2, 5, WIDTH)), "a grafted Plain must get the "
     r"state .*\(4, 16\), got shape \(2, 5, 16\): graft hands states"),
    *((lambda cache=cache: with_cache(cache), "cache must be None: DeltaMatrix reads other")
      for cache in (type("Cache", (), {"update": None})(), object(), [object()])),
    *((lambda cache=cache: with_cache(cache), "use_cache must be False: .* cache holds 4 positions")
      for cache in ((torch.zeros(1, 2, 4, 8),), {"k": torch.zeros(1, 2, 4, 8)})),
    (lambda: without(slice(2)), "0 must have all its .* without the last one"),
    (lambda: without(slice(1, None)), "0 must have all its .* without the first one"),
    # files
    (lambda: load(blocks(), written({"weights": {}})), ".* must be a file that geolab.graft.save"),
    (lambda: load(blocks(), written({"grafted_with": Late, "weights": {}})), ".* whole file"),
    (lambda: save(ungraft(graft(blocks(), "mhc")), io.BytesIO()), "model must be what graft ret"),
    (lambda: save(graft(blocks(), Drift), io.BytesIO()),
     "residual must be one of geolab.residuals.REGISTRY.*Drift"),
    # a network taken apart
    (lambda: residual_stream(blocks(), torch.randn(2, 5, WIDTH)), "model must be in eval mode"),
    (lambda: residual_stream(nn.Sequential(blocks(), blocks()).eval(), torch.randn(2, 5, WIDTH)),
     "model must have one stack of blocks, got '0', '1'"),
    (lambda: residual_stream(nn.Sequential(Plain(), Mix(), Plain()).eval(),
                             torch.randn(2, 5, WIDTH)), "the maps must compute what Sequential"),
]


@pytest.mark.parametrize("call, message", REFUSED, ids=[message for _, message in REFUSED])
def test_what_does_not_fit_is_refused_by_name(call, message):
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        call()


@pytest.mark.parametrize("cut", [slice(2), slice(1, None)])
def test_a_state_that_is_x_needs_no_first_and_no_last_block(cut):
    without(cut, "mgt", gate=False)
