"""A grafted network as a file, taken apart again, and asked for what leaves its forward.
"""

import copy
import pickle

import pytest
import torch
from shared import trained
from torch import nn

from geolab.graft import graft, load, rule, save, ungraft
from geolab.residuals import Additive

FAMILIES = ("decoder", "encoder", "gpt2", "llama", "nanogpt", "vit")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(8), nn.Linear(8, 8)
        self.calls = 0

    def forward(self, x, cache=None):
        self.calls += 1
        return x + self.mix(self.norm(x))


rule(Block, lambda block, cache=None: [(block.norm, block.mix)])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name, options", [("jpmhc", {"streams": 2}), ("layer-scale", {})])
def test_a_file_says_how_it_was_grafted(net, family, name, options, tmp_path):
    made = net(family)
    plain = copy.deepcopy(made.model)
    model = trained(graft(made.model, name, plain=False, **options), 0.01)
    save(model, tmp_path / "mine.pt")
    loaded = load(plain, tmp_path / "mine.pt").eval()
    torch.testing.assert_close(made.run(loaded), made.run(model), rtol=0, atol=0)


def test_what_is_no_such_file_or_has_no_name_is_refused(tmp_path):
    class Own(Additive):
        pass

    torch.save({"weights": {}}, tmp_path / "other.pt")
    with pytest.raises(ValueError, match="must be a file that geolab.graft.save wrote"):
        load(Block(), tmp_path / "other.pt")
    with pytest.raises(ValueError, match="model must be what graft returned, got Block"):
        save(Block(), tmp_path / "plain.pt")
    with pytest.raises(ValueError, match="model must be what graft returned"):
        save(ungraft(graft(nn.Sequential(Block(), Block()), "mhc")), tmp_path / "plain.pt")
    with pytest.raises(ValueError, match="residual must be one of geolab.residuals.REGISTRY.*Own"):
        save(graft(nn.Sequential(Block(), Block()), Own), tmp_path / "own.pt")


def test_a_file_that_would_run_code_is_not_loaded(tmp_path):
    torch.save({"grafted_with": Block, "weights": {}}, tmp_path / "code.pt")
    with pytest.raises(pickle.UnpicklingError):
        load(Block(), tmp_path / "code.pt")


@pytest.mark.parametrize("family", FAMILIES)
def test_ungraft_leaves_a_network_as_it_was(net, family):
    def facts(model):
        return {name: (type(module), {key for key in vars(module) if not key.startswith("_")},
                       {key: value for key, value in vars(module).items()
                        if isinstance(value, bool | int | str | type(None) | set)},
                       set(module._forward_hooks), set(module._forward_pre_hooks))
                for name, module in model.named_modules()}

    made = net(family)
    before, wanted = facts(made.model), made.run(made.model)
    ungraft(graft(made.model, "mhc"))
    assert facts(made.model) == before
    torch.testing.assert_close(made.run(made.model), wanted, rtol=0, atol=0)


def test_timm_s_ways_beside_forward_are_refused_and_come_back(timm):
    x = torch.randn(2, 3, 160, 160)
    model = timm.create_model("test_vit").eval()
    wanted = model.forward_intermediates(x, intermediates_only=True)
    features = timm.create_model("test_vit", features_only=True, out_indices=(1, 3)).eval()
    for grafted, call in ((model, lambda: model.forward_intermediates(x)),
                          (model, lambda: model.get_intermediate_layers(x)),
                          (model, lambda: model.prune_intermediate_layers([2])),
                          (features, lambda: features(x))):
        graft(grafted, "mhc")
        with pytest.raises(ValueError, match="runs blocks from outside of the model's forward"):
            call()
        copy.deepcopy(grafted)
        ungraft(grafted)
    for ours, theirs in zip(model.forward_intermediates(x, intermediates_only=True), wanted,
                            strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_one_of_two_stacks():
    model = nn.Transformer(16, 2, 2, 2, 32, batch_first=True, norm_first=True)
    with pytest.warns(UserWarning, match="leaves encoder.layers"):
        graft(model, "mhc", only=["decoder.layers"])
    assert not any(".residuals." in name for name, _ in model.encoder.named_parameters())
    assert any(".residuals." in name for name, _ in model.decoder.named_parameters())
    for only in ("decoder.layers", ["decoder"]):
        with pytest.raises(ValueError, match="only must be a list of names among "
                                             "'encoder.layers', 'decoder.layers', got"):
            graft(nn.Transformer(16, 2, 2, 2, 32), "mhc", only=only)


def test_a_cache_that_says_no_length_is_refused():
    class Cache:
        def update(self, key):
            pass

    net = nn.ModuleList([Block(), Block()])
    graft(net, "delta-matrix", plain=False)
    with pytest.raises(ValueError, match="cache must be None: DeltaMatrix reads other positions"):
        net[0](torch.randn(1, 3, 8), cache=Cache())
    with pytest.raises(ValueError, match="cache holds 4 positions"):
        net[0](torch.randn(1, 3, 8), cache=(torch.zeros(1, 2, 4, 8),))


def test_a_trial_leaves_attributes_and_replaced_buffers():
    class Counts(Block):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x, cache=None):
            self.seen = self.seen + 1
            return super().forward(x)

    rule(Counts, lambda block, cache=None: [(block.norm, block.mix)])
    blocks = nn.Sequential(Counts(), Counts())
    graft(blocks, "mhc")
    assert [block.calls for block in blocks] == [0, 0]
    assert all(float(block.seen) == 0 for block in blocks)


@pytest.mark.filterwarnings("error")
def test_what_stands_between_blocks_is_told():
    for several in (nn.ModuleList, lambda blocks: nn.Sequential(*blocks)):
        with pytest.warns(UserWarning, match="leaves a Linear between the blocks"):
            graft(several([Block(), nn.Linear(8, 8), Block()]), "mhc")
        graft(several([nn.Linear(8, 8), Block(), Block(), nn.Linear(8, 8)]), "mhc")


@pytest.mark.parametrize("cut, missing", [(slice(2), "last"), (slice(1, None), "first")])
def test_a_part_of_a_stack_is_refused(net, cut, missing):
    made = net("llama")
    model = graft(made.model, "mhc")
    whole, model.model.layers = model.model.layers, model.model.layers[cut]
    with pytest.raises(ValueError, match=f"layers must have all its .* without the {missing} one"):
        made.run(copy.deepcopy(model))
    model.model.layers = whole
    made.run(model)
    # a state that is x needs no first and no last block
    made = net("llama")
    graft(made.model, "mgt", gate=False).model.layers = made.model.model.layers[cut]
    made.run(made.model)
