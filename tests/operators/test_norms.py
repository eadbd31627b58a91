"""Norms have PyTorch's bits where PyTorch is right, and are right where its squares leave float32.
"""

import re
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from geolab import residuals
from geolab.operators.norms import layer_norm, rms_norm
from geolab.residuals import make_residual

NORMS = {"rms": (rms_norm, lambda x: F.rms_norm(x, x.shape[-1:])),
         "rms, 1e-5": (partial(rms_norm, eps=1e-5),
                       lambda x: F.rms_norm(x, x.shape[-1:], eps=1e-5)),
         "layer": (layer_norm, lambda x: F.layer_norm(x, x.shape[-1:]))}
every_norm = pytest.mark.parametrize("ours, pytorch", NORMS.values(), ids=NORMS)


def drawn(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def with_gradient(norm, x):
    x = x.detach().requires_grad_()
    y = norm(x)
    return y, *torch.autograd.grad(y, x, drawn(*x.shape, dtype=x.dtype, seed=1))


@every_norm
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16],
                         ids=str)
def test_bits_and_gradients_are_pytorch_s_up_to_65536(ours, pytorch, dtype):
    for scale in (0.0, 1e-30, 1e-6, 1e-3, 1.0, 300.0, 1e4):
        for width in (1, 3, 64, 257):
            x = (scale * drawn(50, 7, width)).to(dtype)
            for got, wanted in zip(with_gradient(ours, x), with_gradient(pytorch, x), strict=True):
                assert got.dtype == wanted.dtype and torch.equal(got, wanted), (scale, width)


@every_norm
@pytest.mark.parametrize("scale", [1e5, 1e10, 4e18, 2e19, 1e25, 1e37])
def test_a_larger_vector_has_the_norm_and_the_gradient_of_float64(ours, pytorch, scale):
    x = scale * drawn(20, 64)
    for got, wanted in zip(with_gradient(ours, x), with_gradient(pytorch, x.double()), strict=True):
        assert_close(got.double(), wanted, rtol=1e-4, atol=1e-5 * wanted.abs().max().item())


@every_norm
def test_what_is_infinite_is_nan_and_alone(ours, pytorch):
    x = drawn(3, 8)
    x[1, 2] = torch.inf
    y = ours(x)
    assert y[1].isnan().any() and torch.equal(y[[0, 2]], pytorch(x[[0, 2]]))


def test_no_residual_calls_a_norm_of_pytorch_s():
    """A sublayer's own norm is the network's."""
    for file in Path(residuals.__path__[0]).glob("*.py"):
        called = re.findall(r"\b(?:F|nn|functional)\.(?:rms_norm|layer_norm|RMSNorm)",
                            file.read_text())
        assert not called, file.name


@pytest.mark.parametrize("share", ["learned", "depth"])
def test_an_output_of_any_size_has_size_one_where_it_is_normed(share):
    residual = make_residual("norm-preserving", 16, 1, 3, share=share)
    x, update = drawn(2, 3, 16), drawn(2, 3, 16, seed=1)
    with torch.no_grad():
        assert_close(residual(x, lambda x: 1e25 * update), residual(x, lambda x: 1e5 * update))
