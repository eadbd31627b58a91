"""Every residual in a small network, with its kernels and without them."""

from unittest.mock import Mock, patch

import pytest
import torch
from shared_kernels import distance, normal
from torch import nn
from torch.nn.utils import parametrize

from geolab import kernels
from geolab.models import Transformer, TransformerConfig
from geolab.probes import depth_weights
from geolab.residuals import REGISTRY

WIDTH, LENGTH = 16, 5


def network(name, device, **options):
    """A network whose parameters are not at their initial values: a zero hides wrong gradients."""
    torch.manual_seed(0)
    made = Transformer(TransformerConfig.benchmark(width=WIDTH, layers=1, heads=2, max_length=8),
                       name, **options).to(device)
    with torch.no_grad():
        for i, p in enumerate(made.parameters()):
            p.add_(normal(*p.shape, seed=10 + i, device=device), alpha=0.1)
    return made


def step(model, x, mode, through=lambda model, x: model(x)):
    """The output, and the gradients with respect to all parameters, for a random cotangent."""
    parameters = dict(model.named_parameters())
    with kernels.use(mode):
        y = through(model, x)
        grads = torch.autograd.grad(y, list(parameters.values()),
                                    normal(*y.shape, seed=2, dtype=y.dtype, device=y.device))
    return {"output": y} | dict(zip(parameters, grads, strict=True))


# delta residuals whose v and β a kernel makes beside the update, and others
FUSED = [("delta", {}), ("delta", {"value": "sigmoid"}), ("delta", {"map": "v"}),
         ("delta", {"context": "sublayer", "eps": 0.1}), ("delta-matrix", {}),
         ("delta-matrix", {"map": "v", "direction_reads": "flatten"}),
         ("delta-matrix", {"beta_reads": "attention", "channels": 3})]
LONGER = [("delta", {"value": "linear"}), ("delta", {"value": "normed-linear"}),
          ("delta", {"value": "constant"}), ("delta", {"gate": "mlp"}),
          ("delta", {"beta_fixed": 1.0}), ("delta", {"erase": False}),
          ("delta-matrix", {"beta_reads": "flatten"})]
# kernels that join two sublayers make some forms of a, b and H, and leave the others to PyTorch
FORMS = [*((name, {}) for name in REGISTRY),
         *(form for form in FUSED + LONGER if form[1]),
         ("mhc", {"eps": 1e-2, "write_eps": 1e-2, "norm_eps": 1e-2, "readout": "learned"}),
         ("mhc", {"without": ("mix",), "eps": 1e-2, "write_eps": 1e-2}),
         ("mhc", {"without": ("mix",), "streams": 8}), ("mhc", {"streams": 2}),
         ("mhc", {"streams": 8, "iterations": 2}), ("hyper", {"streams": 8}),
         ("hyper", {"dynamic": False}), ("hyper", {"dynamic": False, "streams": 8}),
         ("mhc", {"mix": "permutations"}), ("mhc", {"mix": "circulant", "streams": 3}),
         ("mhc", {"mix": "orthostochastic"}), ("jpmhc", {"retraction": "exact", "alpha": 1.0})]


@pytest.mark.parametrize("name, options", FORMS, ids=str)
def test_a_residual_gives_the_same_with_kernels(device, name, options):
    model, x = network(name, device, **options), normal(2, LENGTH, WIDTH, seed=1, device=device)
    with_kernels, without = step(model, x, "always"), step(model, x, "never")
    size = max(g.norm() for g in without.values())
    for part, wanted in without.items():
        if wanted.norm() > 1e-4 * size:
            assert distance(with_kernels[part], wanted) < 1e-4, part
        else:  # a gradient that is only rounding has no relative error
            assert (with_kernels[part] - wanted).norm() < 1e-6 * size, part


@pytest.mark.parametrize("name", REGISTRY)
def test_under_autocast_a_state_keeps_its_dtype(device, name):
    model, x = network(name, device), normal(2, LENGTH, WIDTH, seed=1, device=device)
    with torch.autocast(device, torch.bfloat16), kernels.use("always"):
        state = model.layers[0].residual.expand(x)
        for layer in model.layers:
            state = layer(state)
            assert state.dtype == torch.float32
        loss = model(x).float().square().mean()
        grads = torch.autograd.grad(loss, list(model.parameters()))
    assert all(g.isfinite().all() for g in grads)


@pytest.mark.parametrize("name", ["hyper", "mhc", "emhc-stream"])
def test_who_hears_whom_is_the_same_where_kernels_run(device, name):
    """Its rows are backward passes through one run, and a joined kernel's can be taken once."""
    model, x = network(name, device), normal(2, LENGTH, WIDTH, seed=1, device=device)
    with kernels.use("always"):
        weights, outputs, inputs = depth_weights(model, x)
    assert distance((weights * outputs).sum(1), inputs) < 2e-6


# ---------------------------------------------------------------- v and β of the delta residuals

def fused(run):
    """How many sublayers `run` takes through the kernels of `delta_layer`."""
    twin = Mock(wraps=kernels.TWINS["delta_layer"])
    with patch.dict(kernels.TWINS, delta_layer=twin), kernels.use("always"):
        run()
    return twin.call_count


@pytest.mark.parametrize("name, options", FUSED + LONGER, ids=str)
def test_a_kernel_makes_value_and_rate_where_both_maps_are_linear(device, name, options):
    model, x = network(name, device, **options), normal(2, LENGTH, WIDTH, seed=1, device=device)
    sublayers = 2 if (name, options) in FUSED else 0
    assert fused(lambda: model(x)) == sublayers
    assert fused(lambda: model.double()(x.double())) == 0


@pytest.mark.parametrize("gate_logits, sublayers", [("half", 0), ("single", 2)])
def test_under_autocast_a_kernel_makes_no_rate_that_is_to_be_rounded(device, gate_logits,
                                                                    sublayers):
    model = network("delta", device, gate_logits=gate_logits)
    with torch.autocast(device, torch.bfloat16):
        assert fused(lambda: model(normal(2, LENGTH, WIDTH, device=device))) == sublayers


class Adapter(nn.Module):
    """A map and a small one beside it, as adapters put them."""

    def __init__(self, base):
        super().__init__()
        self.base, self.beside = base, nn.Linear(base.in_features, base.out_features)

    def forward(self, x):
        return self.base(x) + self.beside(x)


def doubles(residual, head):
    getattr(residual, head).register_forward_hook(lambda module, given, y: 2 * y)


def shifts(residual, head):
    getattr(residual, head).register_forward_pre_hook(lambda module, given: (given[0] + 1,))


def adapts(residual, head):
    setattr(residual, head, Adapter(getattr(residual, head)).to(residual.value_head.weight))


def reparametrizes(residual, head):
    parametrize.register_parametrization(getattr(residual, head), "weight", nn.Tanh())


@pytest.mark.parametrize("change", [doubles, shifts, adapts, reparametrizes])
@pytest.mark.parametrize("name", ["delta", "delta-matrix"])
@pytest.mark.parametrize("head", ["value_head", "beta_head"])
def test_what_acts_on_a_map_of_a_delta_residual_acts_where_kernels_run(device, name, head, change):
    model, x = network(name, device), normal(2, LENGTH, WIDTH, seed=1, device=device)
    before = step(model, x, "always")["output"]
    change(model.layers[0].residual, head)
    with_kernels, without = step(model, x, "always"), step(model, x, "never")
    assert fused(lambda: model(x)) == 1  # of the other sublayer
    assert distance(with_kernels["output"], before) > 1e-4
    assert all(distance(with_kernels[part], without[part]) < 1e-4 for part in without
               if without[part].norm() > 1e-3)
