"""Blocks, models and calls that a careless graft would change without a word."""

import copy
import random
import threading
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
import torch
from shared import trained
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.testing import assert_close

from geolab.graft import graft, load, residual_stream, rule, rules, save, ungraft

WIDTH = 8


class Plain(nn.Module):
    def __init__(self, width=WIDTH):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x, mask=None):
        return x + self.mix(self.norm(x))


class Named(NamedTuple):
    x: Tensor
    y: Tensor


class Returns(Plain):
    """A block that returns `make(x, y)`, where y is what its F reads."""

    make: object

    def forward(self, x, mask=None):
        return self.make(super().forward(x), self.norm(x))


def returning(made):
    return type("Returning", (Returns,), {"make": staticmethod(made)})


class Weightless(nn.Module):
    def forward(self, x):
        return x + x.tanh()


class InPlace(Plain):
    def forward(self, x):
        x += self.mix(self.norm(x))
        return x


class Spectral(Plain):
    """Each forward in training mode moves what the next one computes."""

    def __init__(self):
        super().__init__()
        nn.utils.spectral_norm(self.mix)


class Clashing(Plain):
    def __init__(self):
        super().__init__()
        self.residuals = "mine"

    def forward(self, x):
        return super().forward(x)


class Unshaped(Plain):
    def __init__(self):
        super().__init__()
        self.mix = nn.LazyLinear(WIDTH)


class Alone(Plain):
    """A block that returns a tuple with x alone."""

    def forward(self, x):
        return super().forward(x),


class Drawing(Plain):
    """A block whose F is drawn outside of torch, as a depth is that is written by hand."""

    def forward(self, x):
        return x + self.update(self.norm(x))

    def update(self, y):
        return self.mix(y) * random.random() * np.random.rand()


class Locked(Plain):
    """A block with a part that can't be copied, and that it makes anew."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()

    def __getstate__(self):
        return {key: value for key, value in vars(self).items() if key != "lock"}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.lock = threading.Lock()


class Second(nn.Module):
    """A block (T, B, D) -> (T, B, D), as a recurrent network is by default."""

    def __init__(self):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(WIDTH), nn.GRU(WIDTH, WIDTH)

    def forward(self, x):
        return x + self.update(self.norm(x))

    def update(self, x):
        return self.mix(x)[0]


class Widening(Plain):
    """A block that keeps x in float32 beside weights of half precision."""

    def forward(self, x):
        return x.float() + self.mix(self.norm(x.to(self.mix.weight.dtype)))


@dataclass
class Nested:
    x: Tensor
    inner: object = None


class Nesting(nn.Sequential):
    def forward(self, x):
        return [Nested(x.long(), (Nested(super().forward(x)),))]


class Firsts(nn.ModuleList):
    def forward(self, x):
        for block in self:
            x = block(x)[0]
        return x


class Looping(nn.Module):
    """A loop over blocks, without those in `skipped`."""

    def __init__(self, blocks, skipped=()):
        super().__init__()
        self.blocks, self.skipped = blocks, skipped

    def forward(self, x):
        blocks = self.blocks["h"] if isinstance(self.blocks, nn.ModuleDict) else self.blocks
        for index, block in enumerate(blocks.children()):
            x = x if index in self.skipped else block(x)
        return x


class ByName(nn.ModuleList):
    def forward(self, x):
        for block in self:
            x = block(mask=None, x=x)
        return x


@pytest.fixture(autouse=True)
def rules_of_this_test(monkeypatch):
    monkeypatch.setattr("geolab.graft.rules.OWN", rules.OWN.copy())
    rule(Plain, sublayers)
    rule(Weightless, lambda block: [(None, torch.tanh)], width=WIDTH)
    for kind in (Returns, InPlace, Clashing, Widening):
        rule(kind, sublayers)
    rule(Alone, lambda block: [(block.norm, lambda y: (block.mix(y),))])
    for kind in (Drawing, Second):
        rule(kind, lambda block: [(block.norm, block.update)])


def sublayers(block, mask=None):
    return [(block.norm, block.mix)]


def stack(*blocks):
    torch.manual_seed(0)
    return nn.Sequential(*(block() if isinstance(block, type) else block for block in blocks))


def hooked():
    model = stack(Plain, Plain)
    model[0].register_forward_hook(lambda block, given, y: y + 1)
    return model


def tied(order):
    blocks = [Plain() for _ in range(1 + max(order))]
    return stack(*(blocks[k] for k in order))


X = torch.linspace(-2, 2, 2 * 5 * WIDTH).view(2, 5, WIDTH)


@pytest.mark.parametrize("make", [
    lambda: stack(Weightless, Weightless), lambda: stack(InPlace, InPlace),
    lambda: stack(Spectral, Spectral).train(), lambda: tied([0, 1, 1, 2]),
    lambda: ByName([Plain(), Plain()]), lambda: Firsts([Alone(), Alone()]),
    lambda: stack(Drawing, Drawing), lambda: stack(Second, Second), hooked,
    lambda: copy.deepcopy(graft(stack(Locked, Locked), "additive")) and stack(Locked, Locked)])
def test_an_odd_block_computes_what_it_computed_before(make):
    model = make()
    graft(model, "additive", example=X.clone())
    model = make()
    training, model = model.training, model.eval()
    random.seed(0), np.random.seed(0)
    draws = random.getstate(), np.random.get_state()[1].tolist()
    graft(model.train(training), "mhc").eval()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == draws
    with torch.no_grad():
        after = model(X.clone())
        random.seed(0), np.random.seed(0)
        assert_close(after, ungraft(model)(X.clone()), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["delta-matrix", "emhc-hybrid", "benchmark-delta"])
def test_a_rule_says_which_axis_the_positions_are_where_a_residual_reads_them(name):
    with pytest.raises(ValueError, match="^batch_first must be False in the rule of Second, whose"):
        graft(stack(Second, Second), name, plain=False)
    rule(Second, lambda block: [(block.norm, block.update)], batch_first=False)
    model = trained(graft(stack(Second, Second), name, plain=False).eval())
    x = X.clone()
    x[:, 0] += torch.linspace(0, 1, WIDTH)
    before, after = model(X), model(x)
    assert_close(after[:, 1:], before[:, 1:])
    assert not torch.allclose(after[:, 0], before[:, 0], atol=1e-3)


def test_a_graft_that_is_refused_by_a_filter_of_warnings_leaves_the_network():
    model = nn.Sequential(Plain(), nn.Linear(WIDTH, WIDTH), Plain())
    with warnings.catch_warnings(), pytest.raises(UserWarning, match="leaves a Linear"):
        warnings.simplefilter("error")
        graft(model, "mhc")
    assert type(model[0]) is Plain and not model._forward_hooks


@pytest.mark.filterwarnings("error")
def test_a_cache_in_a_block_is_told_of_where_a_residual_reads_other_positions():
    kept = [Plain(), Plain()]
    kept[0].mix.register_buffer("kv_cache", torch.zeros(1, 9, WIDTH))
    kept[0].mix.register_buffer("cos_cached", torch.zeros(9, WIDTH))
    with pytest.warns(UserWarning, match="how many positions kv_cache of Linear holds"):
        graft(stack(*kept), "emhc-hybrid", plain=False)
    graft(ungraft(stack(*kept)), "mhc")
    del kept[0].mix.kv_cache
    graft(ungraft(stack(*kept)), "emhc-hybrid", plain=False)


def test_two_places_of_one_block_each_are_grafted_one_by_one():
    model = nn.ModuleDict({"a": nn.ModuleDict({"x": Plain()}), "b": nn.ModuleDict({"y": Plain()})})
    with pytest.raises(ValueError, match="^the blocks of a stack must have one parent, got 2"):
        graft(model, "mhc")
    graft(model, "mhc", only=["a"])
    assert type(model["b"]["y"]) is Plain


@pytest.mark.parametrize("hold", [
    nn.ModuleList, lambda blocks: nn.Sequential(*blocks),
    lambda blocks: nn.ModuleDict({"h": nn.ModuleList(blocks)})], ids=["list", "sequence", "dict"])
def test_a_loop_may_skip_any_blocks_but_those_at_the_ends(hold):
    torch.manual_seed(0)
    model = Looping(hold([Plain() for _ in range(4)]), skipped=(1, 2))
    before = model(X)
    graft(model, "mhc")
    for network in (model, copy.deepcopy(model)):
        assert_close(network(X), before, rtol=1e-5, atol=1e-5)
        for skipped, message in (((3,), "the forward of Looping must run the last block of blocks"),
                                 ((2, 3), "the forward of Looping must run the last block"),
                                 ((0,), "a grafted Plain must get the state of the block before")):
            network.skipped = skipped
            with pytest.raises(ValueError, match=f"^{message}"):
                network(X)
        network.skipped = (0, 1, 2, 3)
        assert network(X) is X
    ungraft(model).skipped = (3,)
    model(X)
    graft(model, "mgt", gate=False)  # whose state is an x
    model(X)


@pytest.mark.parametrize("around", [
    torch.no_grad(), torch.inference_mode(), torch.device("meta")], ids=["no_grad", "inference",
                                                                         "meta"])
def test_a_graft_is_trained_whatever_stands_around_the_call(around):
    model = stack(Plain, Plain)
    with around:
        graft(model, "mhc")
    model(X).square().sum().backward()
    assert all(p.device == X.device and p.grad is not None for p in model.parameters())


def test_a_file_is_replaced_whole_and_a_model_that_it_does_not_fit_stays_plain(tmp_path,
                                                                              monkeypatch):
    path = tmp_path / "mein Netz ü.pt"
    model = graft(stack(Plain, Plain), "mhc")
    save(model, path)

    def half_a_save(content, file):
        file.write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(torch, "save", half_a_save)
        save(model, path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert torch.equal(load(stack(Plain, Plain), path)(X), model(X))
    deeper = stack(Plain, Plain, Plain)
    with pytest.raises(RuntimeError, match="Missing key"):
        load(deeper, path)
    assert all(type(block) is Plain for block in deeper)


def grafts(*blocks, residual="mhc", **options):
    return lambda: graft(stack(*blocks), residual, **options)


def wrong_tuple(made, update):
    """The block returns made(x, y), and its rule's F update(block, y)."""
    def call():
        block = returning(made)
        rule(block, lambda b, mask=None: [(b.norm, lambda y: update(b, y))])
        graft(stack(block, block), "mhc")
    return call


def skipping():
    model = ByName([Plain(), Plain(), Plain()]).eval()
    model.forward = lambda x: model[1](model[0](x))
    return residual_stream(model, X)


def shortened():
    blocks = nn.ModuleDict({name: Plain() for name in "abc"})
    model = graft(nn.ModuleDict({"blocks": blocks}), "mhc")
    del blocks["c"]
    model.forward = lambda x: blocks["b"](blocks["a"](x))
    model(X)


def changed():
    model = graft(stack(Plain), "mhc")
    model[0].gain = nn.Parameter(torch.ones(WIDTH))
    nn.utils.parametrize.register_parametrization(model[0], "gain", nn.Identity())
    ungraft(model)


def two_stacks():
    first, last = Plain(), Plain()
    graft(nn.ModuleList([stack(first, last), stack(last, first)]), "mhc")


REFUSED = [  # a call, and how its message begins
    # places
    *((lambda order=order: graft(tied(order), "mhc"), "the blocks at the ends of a stack must stand"
       f" in one place, got a Plain in {count}") for order, count in (([0, 1, 0], 2),
                                                                      ([0, 0, 0], 3))),
    (two_stacks, "the blocks at the ends of a stack must stand in one place, got a Plain in 2"),
    (lambda: residual_stream(tied([0, 1, 1, 2]).eval(), X), "model must run each Plain once, got "
     "one that runs 2 times"),
    (skipping, "model must run each Plain once, got one that runs 0 times"),
    (shortened, "blocks must have all its grafted blocks, got a list without the last one"),
    (grafts(Plain, Plain(2 * WIDTH)), "the blocks of a stack must have one width, .* got 8 and 16"),
    (lambda: graft(stack(Widening).half(), "mhc"), r"the rule of Widening must give shape .* of "
     r"torch.float32, got .* of torch.float16; if x isn't of the block's dtype, give graft an ex"),
    (lambda: graft(Nesting(returning(lambda x, y: 2 * x)()), "mhc", example=X), "the rule of "
     "Nesting must compute what its forward does"),
    (grafts(Clashing), "Clashing must leave the name 'residuals' to graft"),
    (changed, "the grafted blocks must have the class that graft gave them, got ParametrizedPl"),
    (grafts(Unshaped, Unshaped), "model must have weights with shapes, got 0.mix.weight"),
    # what a block returns
    *((grafts(returning(made), returning(made)), "the rule of Returning must return what forward "
       f"does, a {kind}, got a tensor") for made, kind in (
           (lambda x, y: {"x": x}, "dict"), (lambda x, y: [x], "list"), (Named, "Named"))),
    (wrong_tuple(Named, lambda b, y: (b.mix(y), y)), "the rule of .* a Named, got a tuple of 2"),
    (wrong_tuple(lambda x, y: (x, y, y), lambda b, y: (b.mix(y), y)),
     "the rule of .* a tuple of 3, with 3 tensors, got a tuple of 2"),
    (wrong_tuple(lambda x, y: (x, 3 * y), lambda b, y: (b.mix(y), y)),
     "the rule of Returning must compute what its forward does, got a difference of"),
    # arguments
    *((grafts(Plain, residual=wrong), "residual must be a name in .*REGISTRY or a class of Residual"
       ", got") for wrong in (3, None, nn.Linear)),
    *((grafts(Plain, dtype=wrong), "dtype must be None or a floating dtype such as torch.float32, "
       "got") for wrong in ("float32", torch.int8, torch.complex64)),
    *((lambda wrong=wrong: graft(nn.ModuleDict({"a": stack(Plain), "b": stack(Plain)}), "mhc",
                                 only=wrong), "only must be a list of names among 'a', 'b', got")
      for wrong in (3, None, (name for name in "a"))),
    *((lambda wrong=wrong: graft(wrong, "mhc"), "model must be an nn.Module, got")
      for wrong in (None, [Plain()])),
    *((grafts(Plain, example=wrong), "example must be inputs that Sequential takes, got")
      for wrong in ({"y": X}, [X], X[..., 1:])),
    (grafts(Plain, example=X[:0]), "example must lead to numbers that can be compared"),
    (lambda: graft(stack(Plain), "mhc")(pack_padded_sequence(X, [5, 3], batch_first=True)),
     "x of a grafted Plain must be a tensor, got PackedSequence"),
    *((lambda args=args: graft(stack(Plain), "mhc")[0](**args), "x of a grafted Plain must come "
       f"first or be named 'x', got {got}") for args, got in (({}, "nothing"), ({"mask": X}, "m"))),
    *((lambda wrong=wrong: rule(*wrong[:2], **dict(wrong[2:])), message) for wrong, message in (
        (("Plain", sublayers), "block must be a class of nn.Module, got 'Plain'"),
        ((Plain(), sublayers), "block must be a class of nn.Module, got Plain"),
        ((Plain, None), "sublayers must be a function of the block, got None"),
        ((Plain, sublayers, ("width", "8")), "width must be a whole number, got '8'"),
        ((Plain, sublayers, ("batch_first", 1)), "batch_first must be one of True, False, got 1"))),
    *((lambda made=made: rule(Plain, lambda block, mask=None: made(block)) or graft(
        stack(Plain), "mhc"), f"the rule of Plain must {message}") for made, message in (
            (lambda b: [("norm", "mix")], "give a list of"), (lambda b: [(b.norm, None)], "give a"),
            (lambda b: iter([(b.norm, b.mix)]), "give a list of"),
            (lambda b: b.attn, "be callable with the block alone.* no attribute 'attn'"))),
    *((lambda x=x: graft(stack(Plain), "laurel")(x), "x of a grafted Plain must have 8 real "
       "features along its last axis, got") for x in (X[..., 1:], X.mT, X.long(), X + 0j)),
]


@pytest.mark.parametrize("call, message", REFUSED, ids=[f"{number} {message}" for number,
                                                        (_, message) in enumerate(REFUSED)])
def test_what_cannot_be_kept_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()
