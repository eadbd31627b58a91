"""The new weights of a grafted network: where they start, their dtype, and what else reads them."""

import copy
import pickle

import pytest
import torch
from shared import ANYWHERE, AS_THEY_ARE, trained
from torch.testing import assert_close

from geolab.graft import graft
from geolab.graft.block import make_residuals
from geolab.residuals import Residual

every_residual = pytest.mark.parametrize("name", sorted(ANYWHERE))
WIDTH, SUBLAYERS = 32, 4  # of the networks of `net` with two layers
HALVES = (torch.bfloat16, torch.float16)


def self_grafting(cls, name, again=False, plain=False):
    """A class of transformers that grafts itself, as the book's page has it."""
    class WithStreams(cls):
        def __init__(self, config):
            super().__init__(config)
            graft(self, name, plain=plain)
            if again:
                self.post_init()
    return WithStreams


def new(model):
    return {key: p for key, p in model.state_dict().items() if ".residuals." in key}


def require_same_start(model, name):
    """What no seed changes is as in the residuals of a direct graft; all else is of their size."""
    one, two = (torch.nn.ModuleList(make_residuals(name, WIDTH, SUBLAYERS)) for _ in range(2))
    starts = zip(new(model).items(), one.state_dict().items(), two.state_dict().values(),
                 strict=True)
    for (key, got), (other, a), b in starts:
        assert key.endswith(other.partition(".")[2]) and got.dtype == a.dtype, key
        assert torch.equal(got[a == b], a[a == b]), key
        assert got.isfinite().all() and got.abs().max() <= 3 * a.abs().max(), key


# ---------------------------------------------------------------- where they start

@every_residual
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_a_plain_checkpoint_gives_what_a_direct_graft_gives(net, family, name, tmp_path):
    network = net(family, layers=2)
    network.model.save_pretrained(tmp_path)
    kind = type(network.model)
    again = family == "gpt2"  # with post_init at the end, too
    model = self_grafting(kind, name, again).from_pretrained(tmp_path).eval()
    require_same_start(model, name)
    before = {key: p.clone() for key, p in new(model).items()}
    model.post_init()
    assert all(torch.equal(p, before[key]) for key, p in new(model).items())
    if name in AS_THEY_ARE:
        assert_close(network.run(model), network.run(network.model.eval()), rtol=0, atol=1e-5)


def test_a_checkpoint_that_lacks_some_of_a_residual_keeps_what_it_has(net, tmp_path):
    network = net("gpt2", layers=2)
    model = graft(network.model, "mhc")
    for p in new(model).values():
        p.fill_(7.0)
    weights = {key: p for key, p in model.state_dict().items() if "1.residuals.0.maps.s" not in key}
    model.save_pretrained(tmp_path, state_dict=weights)
    again = self_grafting(type(net("gpt2").model), "mhc").from_pretrained(tmp_path)
    for key, p in new(again).items():
        assert (p == (0.01 if "1.residuals.0.maps.s" in key else 7.0)).all(), key


def test_what_was_made_on_the_meta_device_is_copied_and_pickled(net):
    network = net("gpt2", layers=2)
    kind = type(network.model)
    with torch.device("meta"):
        model = graft(kind(network.model.config), "jpmhc")
    model = model.to_empty(device="cpu")
    for p in new(model).values():
        p.zero_()
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        for p in again.parameters():
            p.data.fill_(torch.nan)
        again.initialize_weights()
        require_same_start(again, "jpmhc")
        assert not any(p.isnan().any() for p in new(model).values())


# ---------------------------------------------------------------- their dtype

@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", ["mhc", "jpmhc", "emhc-hybrid"])
def test_new_weights_are_float32_in_a_half_network_and_its_dtype_stays(net, name, dtype):
    network = net("llama", layers=2)
    model = graft(network.model.to(dtype), name, plain=False)
    assert {p.dtype for p in new(model).values()} <= {torch.float32}
    seen = []
    model.model.layers[0].register_forward_hook(lambda m, i, state: seen.append(state.dtype))
    assert network.run(model).dtype == dtype and seen == [dtype]


def test_the_network_s_dtype_can_be_asked_for(net):
    model = graft(net("llama").model.to(torch.bfloat16), "mhc", dtype=torch.bfloat16)
    assert {p.dtype for p in new(model).values()} == {torch.bfloat16}


def test_new_weights_are_float32_in_a_network_of_eight_bits(net):
    narrow = net("encoder").model
    for p in narrow.parameters():
        p.requires_grad_(False)
        p.data = p.data.to(torch.float8_e4m3fn)
    found = {p.dtype for p in new(graft(narrow, "mhc")).values()}
    assert found == {torch.float32}


@pytest.mark.parametrize("name", ["mhc", "jpmhc", "delta-matrix", "emhc-hybrid"])
def test_a_grafted_network_is_loaded_in_half_precision_with_its_coefficients_whole(
        net, name, tmp_path):
    network = net("gpt2", layers=2)
    model = graft(network.model, name, plain=False)
    with torch.no_grad():
        for p in new(model).values():
            p.add_(1e-4 * torch.randn_like(p))
    model.save_pretrained(tmp_path)
    kind = self_grafting(type(net("gpt2").model), name)
    again = kind.from_pretrained(tmp_path, dtype=torch.bfloat16)
    assert again.lm_head.weight.dtype == torch.bfloat16
    for key, p in new(model).items():
        assert torch.equal(new(again)[key], p), key
    assert network.run(again.eval()).isfinite().all()


class Rounded(Residual):
    """Returns a state in the dtype of its own weights."""

    def __init__(self, width, index=0, count=1):
        super().__init__(width, index, count)
        self.scale = torch.nn.Parameter(torch.ones(width))

    def forward(self, state, sublayer):
        return state + self.scale * sublayer(state)


class Uncast(Rounded):
    """Multiplies by a matrix in the dtype of its own weights."""

    def __init__(self, width, index=0, count=1):
        super().__init__(width, index, count)
        self.map = torch.nn.Linear(width, width)

    def forward(self, state, sublayer):
        return state + self.map(sublayer(state))


@pytest.mark.parametrize("residual", [Rounded, Uncast])
def test_a_residual_that_changes_the_dtype_of_the_state_is_refused_by_name(net, residual):
    network = net("llama")
    with pytest.raises(ValueError, match=rf"^residual '{residual.__name__}' must keep a state of t"
                                         r"orch.bfloat16.* graft\(\.\.\., dtype=torch.bfloat16\)"):
        graft(network.model.to(torch.bfloat16), residual, plain=False)
    model = graft(network.model, residual, plain=False, dtype=torch.bfloat16)
    assert network.run(model).dtype == torch.bfloat16


# ---------------------------------------------------------------- what replaces nn.Linear

class Behind(torch.nn.Linear):
    """A linear map without a weight to read, as quantisation and adapters make of one."""

    def __init__(self, inside):
        torch.nn.Module.__init__(self)
        self.inside = [inside]

    def weight(self):
        raise TypeError("this weight is read past its module")

    def forward(self, x):
        return self.inside[0](x)


@every_residual
def test_linear_maps_may_be_replaced(net, name):
    network = net("llama", layers=2)
    model = trained(graft(network.model, name, plain=False))
    wanted = network.run(model)
    for part in [part for block in model.model.layers for part in block.modules()]:
        for key, child in list(part.named_children()):
            if isinstance(child, torch.nn.Linear):
                setattr(part, key, Behind(child))
    assert_close(network.run(model), wanted, rtol=0, atol=0)
