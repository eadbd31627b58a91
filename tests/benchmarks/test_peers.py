"""What stands beside a kernel computes the same in its own layout, or says why it isn't there."""

import sys
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from benchmarks import kernels as benchmark
from benchmarks import peers, timing
from benchmarks.cases import CASES, STREAMS, draws
from benchmarks.elementwise import ELEMENTWISE
from benchmarks.peers import Contender
from geolab import kernels

WIDE = torch.float64


def errors_of(name, contender):
    """The errors of a contender in float64, forward and backward."""
    drawn = CASES[name].inputs(7, STREAMS, 12, *draws("cpu", torch.float32, seed=3))
    inputs = tuple(x.detach().to(WIDE).requires_grad_() for x in drawn)
    with torch.no_grad(), kernels.use("never"):
        cotangents = timing.cotangents_of(timing.outputs_of(CASES[name].function, inputs))
    wanted = benchmark.wanted(CASES[name], inputs, cotangents)
    return [error.distance for error in benchmark.errors(contender, inputs, cotangents, wanted)]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_an_operator_without_products_is_the_same_operator(name):
    form = partial(ELEMENTWISE[name], **CASES[name].options)
    assert max(errors_of(name, Contender(form))) < 1e-12
    coarse = form(*CASES[name].inputs(7, STREAMS, 12, *draws("cpu", torch.bfloat16, seed=3)))
    assert coarse.dtype == (torch.float32 if "autocast" in name else torch.bfloat16)


def post(x, residual, weights, transposed):
    """mhc_post of TileKernels: b ⊗ h + Σ_m H[m, n] X_m, for (B, T, ...)."""
    assert weights.shape == (*x.shape[:2], STREAMS, 1) and transposed.is_contiguous()
    return weights * x.unsqueeze(-2) + torch.einsum("abmn,abmc->abnc", transposed, residual)


def post_backward(x, residual, weights, transposed, grad, fuse_grad_acc):
    assert not fuse_grad_acc and grad.is_contiguous()
    leaves = [tensor.detach().requires_grad_() for tensor in (x, residual, weights, transposed)]
    with torch.enable_grad():
        return torch.autograd.grad(post(*leaves), leaves, grad)


def norm_fn(residual, fn, weight, eps, fuse_grad_acc):
    assert residual.ndim == 4 and weight is None and not fuse_grad_acc
    flat = residual.flatten(2)
    return flat @ fn.mT * (flat.square().mean(-1, keepdim=True) + eps).rsqrt()


def rows_first(x, repeat, eps):
    x = x.softmax(-1) + eps
    x = x / (x.sum(-2, keepdim=True) + eps)
    for _ in range(repeat - 1):
        x = x / (x.sum(-1, keepdim=True) + eps)
        x = x / (x.sum(-2, keepdim=True) + eps)
    return x


TILE = SimpleNamespace(  # what the package's reference says, in its shapes
    mhc_pre_apply_mix=lambda x, mix: (x * mix).sum(-2), mhc_post_fwd=post,
    mhc_post_bwd=post_backward, mhc_pre_norm_fn=norm_fn, sinkhorn_normalize=rows_first)


@pytest.mark.parametrize("name", [case for who, case in peers.PEERS if who == "tile-kernels"])
def test_tile_kernels_get_their_layout_and_give_ours(name, monkeypatch):
    """A stand-in has the package's shapes and equations: the kernels themselves need a GPU."""
    monkeypatch.setitem(sys.modules, "tile_kernels.modeling.mhc.ops", TILE)
    assert max(errors_of(name, peers.PEERS["tile-kernels", name])) < 1e-12


@pytest.mark.parametrize("name, case", peers.PEERS)
def test_a_peer_that_is_not_installed_says_how_to_get_it(name, case, monkeypatch):
    monkeypatch.setattr(peers, "find_spec", lambda module: None)
    distribution = name.partition(",")[0]
    options = benchmark.Options("cpu", rounds=0, without=("kernel", "eager", "compiled"))
    rows = {row["contender"]: row for row in benchmark.measure(case, 3, 8, options)}
    package = peers.PACKAGES[distribution]
    assert rows[name]["failed"] == ("ModuleNotFoundError: not installed: pip install "
                                    f"{distribution}=={package.version}")
    assert package.licence and package.source
    # and one that is left out has no row, in any form
    assert not benchmark.measure(case, 3, 8, options._replace(without=(*options.without,
                                                                       *peers.PACKAGES)))


def test_the_best_setting_is_sought_once_among_those_that_run(monkeypatch):
    ran = []

    def run(**given):
        ran.append(given)
        if given.get("num_warps") == 8:
            raise RuntimeError("out of shared memory")

    def turns(runs, rounds):
        return {setting: [float(setting != (16, 256, 4))] * rounds for setting in runs}

    monkeypatch.setattr(peers, "turns", turns)
    monkeypatch.setattr(peers, "_best", {})
    x = SimpleNamespace(is_cuda=True, shape=(8192, 4, 4096), dtype=torch.bfloat16)
    best = {"block_n": 16, "block_c": 256, "num_warps": 4}
    for _ in range(2):
        assert peers.at_best(run, "read", x, peers._LigerRead.names) == best
    assert len(ran) == len(peers.SETTINGS) and ran[0] == {}
    x.is_cuda = False
    assert peers.at_best(run, "write", x, peers._LigerRead.names) == {}
