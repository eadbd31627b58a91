"""A grafted network that is only run: without autograd, quantised, and with an adapter in it."""

import copy

import pytest
import torch
from shared import ANYWHERE, trained
from torch import nn
from torch.testing import assert_close

from geolab.graft import graft

every_residual = pytest.mark.parametrize("name", sorted(ANYWHERE))


@pytest.fixture
def grafted(net):
    """A network of two blocks, whose new weights are away from their start."""
    def make(name):
        network = net("llama", layers=2)
        return trained(graft(network.model, name, plain=False), 0.02), network.inputs
    return make


@every_residual
def test_inference_mode_computes_and_generates_what_no_grad_does(grafted, name):
    model, tokens = grafted(name)
    cache = not model.model.layers[0].reads_other_positions
    found = []
    for context in (torch.inference_mode, torch.no_grad):
        with context():
            found += [model(tokens, use_cache=False).logits,
                      model.generate(tokens, attention_mask=torch.ones_like(tokens),
                                     max_new_tokens=3, do_sample=False, use_cache=cache)]
    assert_close(found[:2], found[2:], rtol=0, atol=0)
    model(tokens, use_cache=False).logits.sum().backward()  # no tensor of inference mode is kept


@pytest.mark.filterwarnings("ignore:.*deprecated")
@every_residual
def test_eight_bits_compute_about_the_same(grafted, name):
    model, tokens = grafted(name)
    small = torch.ao.quantization.quantize_dynamic(copy.deepcopy(model), {nn.Linear}, torch.qint8)
    with torch.no_grad():
        wanted, got = (m(tokens, use_cache=False).logits for m in (model, small))
    assert 0 < (got - wanted).norm() < 0.1 * wanted.norm()


class LoRA(nn.Module):
    """W x + B A x, around a linear map that keeps its weights (Hu et al. 2021)."""

    def __init__(self, base, rank=2):
        super().__init__()
        self.base = base
        self.down = nn.Linear(base.in_features, rank, bias=False)
        self.up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


@every_residual
def test_an_adapter_starts_where_the_grafted_network_is_and_learns(grafted, name):
    model, tokens = grafted(name)
    wanted = model(tokens, use_cache=False).logits
    for part in [part for block in model.model.layers for part in block.modules()]:
        for key, child in list(part.named_children()):
            if isinstance(child, nn.Linear) and not isinstance(part, LoRA):
                setattr(part, key, LoRA(child))
    got = model(tokens, use_cache=False).logits
    assert_close(got, wanted, rtol=0, atol=0)
    got.square().mean().backward()
    assert all(m.up.weight.grad is not None for m in model.modules() if isinstance(m, LoRA))
