"""Every residual in a small network, with its kernels and without them."""

import pytest
import torch
from shared_kernels import distance, normal

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


# kernels that join two sublayers make some forms of a, b and H, and leave the others to PyTorch
FORMS = [*((name, {}) for name in REGISTRY),
         ("mhc", {"eps": 1e-2, "write_eps": 1e-2, "norm_eps": 1e-2, "readout": "learned"}),
         ("mhc", {"without": ("mix",), "eps": 1e-2, "write_eps": 1e-2}),
         ("mhc", {"without": ("mix",), "streams": 8}), ("mhc", {"streams": 2}),
         ("mhc", {"mix": "permutations"}), ("mhc", {"mix": "circulant", "streams": 3}),
         ("mhc", {"mix": "orthostochastic"})]


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
