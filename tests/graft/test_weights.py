"""The weights of a grafted network: their dtype, its copies, and its files."""

import copy
import pickle

import numpy as np
import pytest
import torch
from shared import trained
from torch import nn
from torch.testing import assert_close

from geolab.graft import graft, load, save
from geolab.residuals import Residual


def new(model):
    return {key: p for key, p in model.state_dict().items() if ".residuals." in key}


def self_grafting(kind, name):
    """A class of transformers that grafts itself, as the book's page has it."""
    class WithStreams(kind):
        def __init__(self, config):
            super().__init__(config)
            graft(self, name, plain=False)
    return WithStreams


# ---------------------------------------------------------------- dtype

@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["mhc", "jpmhc", "emhc-hybrid"])
def test_new_weights_are_float32_or_wider_and_the_state_keeps_its_dtype(net, name, dtype):
    network = net("llama", layers=2)
    model = network.model.to(dtype)
    before, seen = network.run(model), []
    graft(model, name, plain=False)
    assert {p.dtype for p in new(model).values()} == {torch.promote_types(dtype, torch.float32)}
    model.model.layers[0].register_forward_hook(lambda m, i, state: seen.append(state.dtype))
    y = network.run(model)
    assert y.dtype == dtype and seen == [dtype]
    if name != "emhc-hybrid":  # which doesn't start as the plain network
        tolerance = 1e-5 if dtype == torch.float64 else 0.05
        assert_close(y, before, rtol=tolerance, atol=tolerance * before.abs().max().item())


def test_new_weights_are_float32_in_a_network_of_eight_bits(net):
    narrow = net("encoder").model
    for p in narrow.parameters():
        p.requires_grad_(False)
        p.data = p.data.to(torch.float8_e4m3fn)
    assert {p.dtype for p in new(graft(narrow, "mhc")).values()} == {torch.float32}


class Uncast(Residual):
    """Multiplies by a matrix in the dtype of its own weights."""

    def __init__(self, width, index=0, count=1):
        super().__init__(width, index, count)
        self.map = nn.Linear(width, width)

    def forward(self, state, sublayer):
        return state + self.map(sublayer(state))


class Rounded(Uncast):
    """Returns a state in the dtype of its own weights."""

    def forward(self, state, sublayer):
        return state + self.map.bias * sublayer(state)


@pytest.mark.parametrize("residual", [Rounded, Uncast])
def test_a_residual_that_changes_the_dtype_of_the_state_needs_weights_of_that_dtype(net, residual):
    network = net("llama")
    model = network.model.to(torch.bfloat16)
    with pytest.raises(ValueError, match=rf"^residual '{residual.__name__}' must keep a state of t"
                                         r"orch.bfloat16.* graft\(\.\.\., dtype=torch.bfloat16\)"):
        graft(model, residual, plain=False)
    graft(model, residual, plain=False, dtype=torch.bfloat16)
    assert network.run(model).dtype == torch.bfloat16


# ---------------------------------------------------------------- files of transformers

@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family, name", [
    ("gpt2", "mhc"), ("gpt2", "jpmhc"), ("gpt2", "delta-matrix"), ("gpt2", "emhc-hybrid"),
    ("llama", "mhc"), ("qwen2", "mhc"), ("qwen3", "mhc")])
def test_saved_weights_come_back_and_the_residuals_whole_also_in_half_precision(
        net, family, name, dtype, tmp_path):
    network = net(family, layers=2)
    model = trained(graft(network.model, name, plain=False), 1e-4)
    model.save_pretrained(tmp_path)
    again, report = self_grafting(type(net(family).model), name).from_pretrained(
        tmp_path, dtype=dtype, output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert again.lm_head.weight.dtype == dtype
    for key, p in new(model).items():
        assert torch.equal(new(again)[key], p), key
    tolerance = 1e-5 if dtype == torch.float32 else 0.2
    assert_close(network.run(again.eval()).float(), network.run(model), rtol=tolerance,
                 atol=tolerance * 10)


def test_a_checkpoint_that_lacks_some_of_a_residual_keeps_what_it_has(net, tmp_path):
    model = graft(net("gpt2", layers=2).model, "mhc")
    for p in new(model).values():
        p.fill_(7.0)
    weights = {key: p for key, p in model.state_dict().items() if "1.residuals.0.maps.s" not in key}
    model.save_pretrained(tmp_path, state_dict=weights)
    again = self_grafting(type(net("gpt2").model), "mhc").from_pretrained(tmp_path)
    for key, p in new(again).items():
        assert (p == (0.01 if "1.residuals.0.maps.s" in key else 7.0)).all(), key


# ---------------------------------------------------------------- copies

again_by = pytest.mark.parametrize(
    "again", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))],
    ids=["copied", "pickled"])


@again_by
@pytest.mark.parametrize("family", ["gpt2", "vit", "encoder"])
def test_a_copy_is_a_network_of_its_own(net, family, again):
    network = net(family)
    model = graft(network.model, "mhc")
    before, twin = network.run(model), again(model)
    assert torch.equal(network.run(twin), before)
    with torch.no_grad():
        for p in model.parameters():
            p.zero_()
    assert torch.equal(network.run(twin), before)


@again_by
def test_what_was_made_on_the_meta_device_is_copied_and_starts(net, again):
    network = net("gpt2", layers=2)
    with torch.device("meta"):
        model = graft(type(network.model)(network.model.config), "jpmhc")
    assert all(p.is_meta for p in model.parameters())
    model = model.to_empty(device="cpu")
    for p in model.parameters():
        p.data.zero_()
    twin = again(model)
    for p in twin.parameters():
        p.data.fill_(torch.nan)
    twin.initialize_weights()
    assert all(p.isfinite().all() for p in new(twin).values())
    assert not any(p.any() for p in new(model).values())


# ---------------------------------------------------------------- files of geolab

@pytest.mark.parametrize("family", ["decoder", "encoder", "gpt2", "llama", "nanogpt", "vit"])
@pytest.mark.parametrize("name, options", [("jpmhc", {"streams": np.int64(2)}), ("layer-scale", {}),
                                           ("delta-matrix", {"tied": True})])
def test_a_file_says_how_it_was_grafted(net, family, name, options, tmp_path):
    network = net(family)
    plain = copy.deepcopy(network.model)
    model = trained(graft(network.model, name, plain=False, **options), 0.01)
    save(model, tmp_path / "mine.pt")
    loaded = load(plain, tmp_path / "mine.pt").eval()
    assert_close(network.run(loaded), network.run(model), rtol=0, atol=0)
