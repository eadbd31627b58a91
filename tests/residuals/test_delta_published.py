"""What the public code of the delta residuals has: β through the sublayer's norm, one compressor
for both sublayers of a block, and a gate in single precision.
"""

import pickle
from copy import deepcopy

import pytest
import torch
from shared import CLOSE, WIDTH, networks, normal, shaken, sublayer
from torch import nn
from torch.testing import assert_close

from geolab.models import Transformer, TransformerConfig
from geolab.residuals import Delta, DeltaMatrix, Normed, make_residual

FORMS = [("delta", {}), ("delta", {"map": "v"}), ("delta", {"value": "normed-linear"}),
         ("delta-matrix", {}), ("delta-matrix", {"map": "v"}), ("delta-matrix", {"gate": "mlp"})]


def normed():
    norm = shaken(nn.RMSNorm(WIDTH, eps=1e-5).double())
    return Normed(sublayer(), norm)


def network(**options):
    return networks("delta-matrix", **options)[0]


# ---------------------------------------------------------------- context

@pytest.mark.parametrize("name, options", FORMS, ids=str)
def test_a_context_with_a_weight_is_one_without_whose_linear_maps_have_the_weight(name, options):
    torch.manual_seed(3)
    theirs = shaken(make_residual(name, WIDTH, context="sublayer", **options).double())
    ours = make_residual(name, WIDTH, norm_eps=1e-5, **options).double()
    ours.load_state_dict(theirs.state_dict())
    around = normed()
    reads_context = [m for part in ("beta_head", "direction_head", "value_head")
                     if hasattr(ours, part) and (part != "direction_head" or name == "delta")
                     and (part != "value_head" or options.get("value") == "normed-linear")
                     for m in list(getattr(ours, part).modules()) if isinstance(m, nn.Linear)]
    with torch.no_grad():
        for layer in reads_context:
            if layer.in_features == WIDTH:
                layer.weight.mul_(around.norm.weight)
    state = ours.expand(normal(2, 5, WIDTH))
    assert_close(theirs(state, around), ours(state, around), **CLOSE)


@pytest.mark.parametrize("name", ["delta", "delta-matrix"])
def test_the_norms_weight_is_trained_through_beta_too(name):
    x, around = normal(2, 5, WIDTH), normed()
    for context in ("own", "sublayer"):
        residual = make_residual(name, WIDTH, context=context).double()
        beta = residual.coefficients(x, around).beta
        slope, = torch.autograd.grad(beta.sum(), around.norm.weight, allow_unused=True)
        assert (slope is None) == (context == "own")
    assert (slope != 0).all()


@pytest.mark.parametrize("around", [sublayer(), Normed(sublayer())], ids=["plain", "no norm"])
def test_a_context_of_the_sublayer_needs_one_with_a_norm(around):
    residual = Delta(WIDTH, context="sublayer").double()
    with pytest.raises(ValueError, match=r"^context='sublayer' needs a sublayer with a norm, "):
        residual(normal(2, 5, WIDTH), around)
    config = TransformerConfig.ddl(width=WIDTH, layers=1, heads=2, norm_at="post")
    with pytest.raises(ValueError, match="needs a sublayer with a norm"):
        Transformer(config, "delta", context="sublayer")(normal(1, 3, WIDTH, dtype=torch.float32))


# ---------------------------------------------------------------- one compressor per block

COMPRESSORS = pytest.mark.parametrize("compress", ["token", "channel", "channel-conv"])


@COMPRESSORS
def test_tied_compressors_are_counted_and_stored_once(compress):
    tied, apart = (network(compress=compress, tied=tied) for tied in (True, False))
    names = {name for name in apart.state_dict()
             if not name.startswith(("layers.1.residual.compressor",
                                     "layers.3.residual.compressor"))}
    assert set(tied.state_dict()) == {name for name, _ in tied.named_parameters()} == names
    assert tied.layers[1].residual.compressor is tied.layers[0].residual.compressor
    assert tied.layers[3].residual.compressor is tied.layers[2].residual.compressor
    assert tied.layers[2].residual.compressor is not tied.layers[0].residual.compressor


@COMPRESSORS
def test_tied_compressors_are_two_equal_ones_whose_gradients_add_up(compress):
    tied = shaken(network(compress=compress, tied=True, expand="conv"))
    apart = network(compress=compress, expand="conv")
    copies = {name: tied.get_parameter(name.replace("1.residual.compr", "0.residual.compr")
                                       .replace("3.residual.compr", "2.residual.compr"))
              for name, _ in apart.named_parameters()}
    apart.load_state_dict(copies)
    x = normal(2, 6, WIDTH)
    assert_close(tied(x), apart(x), **CLOSE)
    for model in (tied, apart):
        model(x).cos().sum().backward()
    for name, p in tied.layers[0].residual.compressor.named_parameters():
        both = sum(apart.layers[i].residual.compressor.get_parameter(name).grad for i in (0, 1))
        assert_close(p.grad, both, **CLOSE)


@pytest.mark.parametrize("copy", [deepcopy, lambda model: pickle.loads(pickle.dumps(model))],
                         ids=["copied", "pickled"])
def test_what_is_tied_stays_tied_in_a_copy_and_apart_from_the_original(copy):
    model = network(tied=True)
    other, x = copy(model), normal(2, 6, WIDTH)
    assert other.layers[1].residual.compressor is other.layers[0].residual.compressor
    before = model(x)
    assert_close(other(x), before, rtol=0, atol=0)
    shaken(other)
    assert_close(model(x), before, rtol=0, atol=0)


def test_a_second_sublayer_alone_says_what_it_lacks():
    second = DeltaMatrix(WIDTH, index=1, count=2, tied=True).double()
    state = torch.randn(1, 3, WIDTH, 4).double()
    with pytest.raises(ValueError, match=r"^with tied=True every second sublayer reads through "):
        second(state, sublayer())
    second.follow(DeltaMatrix(WIDTH, index=0, count=2, tied=True).double())
    assert second(state, sublayer()).shape == state.shape


# ---------------------------------------------------------------- the gate's precision

@pytest.mark.parametrize("gate", ["linear", "mlp"])
def test_beta_is_single_under_autocast_and_its_logit_where_it_is_asked_for(gate):
    x, around = 3 * normal(2, 50, WIDTH).float(), torch.cos
    half, single = (shaken(Delta(WIDTH, gate=gate, gate_logits=logits), seed=2)
                    for logits in ("half", "single"))
    single.load_state_dict(half.state_dict())
    exact = single.coefficients(x, around).beta
    assert_close(half.coefficients(x, around).beta, exact, rtol=0, atol=0)  # without autocast
    with torch.autocast("cpu", torch.bfloat16):
        rounded, beta = (made.coefficients(x, around).beta for made in (half, single))
    assert rounded.dtype == beta.dtype == torch.float32
    assert_close(beta, exact, rtol=0, atol=1e-6)
    assert 1e-4 < (rounded - exact).abs().max() < 0.05
