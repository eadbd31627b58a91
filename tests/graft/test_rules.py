"""Rules for blocks, of a library or of one's own, and what is refused."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from geolab.graft import graft, reads_other_positions, rule
from geolab.graft.rules import OWN
from geolab.residuals import REGISTRY

WIDTH = 16


@pytest.fixture(autouse=True)
def no_rule_outlives_its_test(monkeypatch):
    monkeypatch.setattr("geolab.graft.rules.OWN", OWN.copy())


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


def plain(block):
    return [(block.norm, block.mix), (block.norm, lambda x: 0.5 * block.other(x))]


def network(block, count=3):
    torch.manual_seed(0)
    return nn.Sequential(*(block() for _ in range(count))), torch.randn(2, 5, WIDTH)


def test_two_lines_graft_a_block_of_one_s_own():
    model, x = network(Plain)
    before = model(x)
    rule(Plain, plain)
    graft(model, "mhc")
    assert_close(model(x), before, rtol=1e-5, atol=1e-5)
    assert len(model[0].residuals) == 2


def test_a_parallel_block_has_one_sublayer():
    model, x = network(Parallel)
    before = model(x)
    rule(Parallel, lambda b: [(b.norm, lambda x: b.mix(x) + b.other(x))])
    graft(model, "hyper")
    assert_close(model(x), before, rtol=1e-5, atol=1e-5)
    assert len(model[0].residuals) == 1


def test_what_else_forward_gets_reaches_the_rule():
    rule(Scaled, lambda b, scale=1, mask=None: [
        (b.norm, lambda x: b.mix(x) * scale * (1 if mask is None else mask))])
    model, x = network(Scaled)
    mask = torch.randn(2, 5, 1)
    before = model[1](model[0](x, 2.0, mask=mask), 3.0)
    graft(model, "mhc")
    last = model[2]
    last.mix.weight.data.zero_(), last.mix.bias.data.zero_()  # so that it only reads out
    assert_close(last(model[1](model[0](x, 2.0, mask=mask), 3.0), 1.0), before, rtol=1e-5,
                 atol=1e-5)


def test_a_post_norm_block():
    rule(PostNorm, lambda b: [(None, b.mix, b.norm)])
    model, x = network(PostNorm)
    before = model(x)
    assert_close(graft(model, "mhc")(x), before, rtol=1e-5, atol=1e-5)


def test_a_single_block_and_blocks_that_are_attributes():
    rule(Plain, plain)
    block, x = Plain(), torch.randn(2, 5, WIDTH)
    before = block(x)
    assert_close(graft(block, "mhc")(x), before, rtol=1e-5, atol=1e-5)

    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.lower, self.upper = Plain(), Plain()

        def forward(self, x):
            return self.upper(self.lower(x))

    model = Two()
    before = model(x)
    assert_close(graft(model, "mhc")(x), before, rtol=1e-5, atol=1e-5)
    assert model.lower(x).shape == (2, 5, 4, WIDTH)


def test_weights_may_have_no_storage_yet():
    rule(Plain, plain)
    with torch.device("meta"):
        model, _ = network(Plain)
        graft(model, "jpmhc")
    assert all(p.is_meta for p in model.parameters())


# ---------------------------------------------------------------- refusals

@pytest.mark.parametrize("name", sorted(set(REGISTRY) - {"additive", "hyper", "mhc", "jpmhc"}))
def test_a_residual_that_doesn_t_start_plain_is_refused(name):
    rule(Plain, plain)
    model, x = network(Plain)
    keys, before = list(model.state_dict()), model(x)
    with pytest.raises(ValueError, match=rf"^residual '{name}' must start as the plain network, "
                       r"with its options left as they are: its output starts \d\S* away.*"
                       r"plain=False"):
        graft(model, name)
    assert list(model.state_dict()) == keys and type(model[0]) is Plain
    assert not torch.allclose(graft(model, name, plain=False)(x), before, atol=1e-4)


def test_a_model_without_known_blocks():
    model, _ = network(Plain)
    with pytest.raises(ValueError, match=r"^model must have blocks that graft knows \(.*GPT2Block"
                       r".*\), got Sequential with Plain; geolab.graft.rule tells it"):
        graft(model, "mhc")
    with pytest.raises(ValueError, match="got Mix with no list of blocks"):
        graft(Mix(), "mhc")


def test_a_rule_that_computes_something_else():
    rule(Plain, lambda b: [(b.norm, b.mix), (b.norm, b.other)])
    with pytest.raises(ValueError, match=r"^the rule of Plain must compute what its forward does, "
                       r"got a difference of \d"):
        graft(network(Plain)[0], "mhc")


def test_a_class_with_nanogpt_s_names_and_another_forward():
    class Other(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln_1, self.attn, self.ln_2, self.mlp = nn.LayerNorm(WIDTH), Mix(), \
                nn.LayerNorm(WIDTH), Mix()

        def forward(self, x):
            return self.ln_2(x + self.attn(self.ln_1(x)) + self.mlp(x))

    with pytest.raises(ValueError, match="^the rule of Other must compute what its forward does"):
        graft(network(Other)[0], "mhc")


def test_a_subclass_with_another_forward_isn_t_the_block():
    class Louder(nn.TransformerEncoderLayer):
        def forward(self, src, *args, **kwargs):
            return 2 * super().forward(src, *args, **kwargs)

    model = nn.Sequential(Louder(WIDTH, 2, batch_first=True, norm_first=True))
    with pytest.raises(ValueError, match="^model must have blocks that graft knows"):
        graft(model, "mhc")


def test_a_second_graft():
    rule(Plain, plain)
    model = graft(network(Plain)[0], "mhc")
    with pytest.raises(ValueError, match="^model must not be grafted yet"):
        graft(model, "mhc")


def test_blocks_that_were_wrapped_before():
    rule(Plain, plain)
    model = nn.Sequential(*(nn.Sequential(Plain()) for _ in range(3)))
    with pytest.raises(ValueError, match="^the blocks of a stack must have one parent, got 3"):
        graft(model, "mhc")


def test_a_forward_that_was_put_over_the_class_s():
    rule(Plain, plain)
    model, _ = network(Plain)
    model[1].forward = model[1].forward
    with pytest.raises(ValueError, match="^the forward of Plain must be that of its class"):
        graft(model, "mhc")


def test_a_post_norm_around_channels_and_around_rescaled_streams():
    rule(PostNorm, lambda b: [(None, b.mix, b.norm)])
    model, _ = network(PostNorm)
    with pytest.raises(ValueError, match=r"normalises streams of width 16, and the state of "
                       r"'delta-matrix' has shape \(1, 1, 16, 4\)"):
        graft(model, "delta-matrix", plain=False)
    with pytest.raises(ValueError, match="^residual 'jpmhc' must start as the plain network"):
        graft(model, "jpmhc")


def test_a_norm_without_a_weight():
    class Bare(Plain):
        def __init__(self):
            super().__init__()
            self.norm = nn.Identity()

    rule(Plain, plain)
    with pytest.raises(ValueError, match="^a rule must give a norm with a weight"):
        graft(network(Bare)[0], "mhc")


def test_a_residual_that_is_wider_than_the_network():
    rule(Plain, plain)
    with pytest.raises(ValueError, match="^the residual must take the network's 16 features, got "
                       "'jpmhc' with {'ends': 'split'}, which takes 64"):
        graft(network(Plain)[0], "jpmhc", ends="split")


def test_errors_of_the_registry_pass_through():
    rule(Plain, plain)
    with pytest.raises(ValueError, match="^unknown residual 'mch'"):
        graft(network(Plain)[0], "mch")
    with pytest.raises(TypeError, match="^residual 'mhc' has no option 'stream'"):
        graft(network(Plain)[0], "mhc", stream=2)
    with pytest.raises(ValueError, match="^plain must be one of True, False"):
        graft(network(Plain)[0], "mhc", plain="yes")


def test_which_residuals_read_other_positions():
    reading = [name for name in REGISTRY if reads_other_positions(name, WIDTH)]
    assert reading == ["delta-matrix", "emhc-cayley", "emhc-hybrid", "emhc-geodesic",
                       "emhc-stream", "benchmark-delta"]
    assert not reads_other_positions("emhc-hybrid", WIDTH, pool="token")
    assert reads_other_positions("emhc-hybrid", WIDTH, pool="sequence")
    assert not reads_other_positions("delta-matrix", WIDTH, compress="channel")
    assert reads_other_positions("delta-matrix", WIDTH, compress="channel", expand="conv")


def test_an_import_loads_no_library():
    import subprocess
    import sys
    code = ("import sys, geolab.graft; "
            "print([m for m in ('transformers', 'timm', 'torchvision') if m in sys.modules])")
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          check=True).stdout.strip() == "[]"
