"""The maps of a checkpoint are those that the released classes compute."""

import re
from importlib import import_module

import pytest
import torch
from torch.testing import assert_close

from geolab.checkpoints import maps_at, maps_of, of_model, readout, static_maps
from geolab.checkpoints.names import KINDS, PARTS, SPELLINGS, find_names, settings_of
from geolab.checkpoints.survey import Checkpoint

D, CLASSES = 8, {  # model type -> module and the beginning of its classes in transformers
    "deepseek_v4": ("deepseek_v4", "DeepseekV4"), "glm5_next": ("glm5_next", "Glm5NextText"),
    "glm5_next_text": ("glm5_next", "Glm5NextText"), "hy_v4": ("hy_v4", "HYV4")}
OTHER = {"hc_sinkhorn_iters": 3, "hc_magnitude": 1.5}  # than the library's defaults
CONFIG = dict(num_hidden_layers=2, hidden_size=D, hc_mult=4, hc_eps=1e-6, rms_norm_eps=1e-6,
              hc_sinkhorn_iters=20, hc_magnitude=2.0)
CLOSE = dict(rtol=0, atol=1e-5)


@pytest.fixture(params=KINDS)
def released(request, transformers):
    """A checkpoint of one layer, and the library's own connections and head, at sharp weights."""
    place, prefix = CLASSES[request.param]
    config = getattr(import_module(f"transformers.models.{place}"), f"{prefix}Config")(
        hidden_size=D, num_hidden_layers=1, hc_eps=1e-3, rms_norm_eps=1e-2,
        **{key: OTHER[key] for key in KINDS[request.param].keys})
    classes = import_module(f"transformers.models.{place}.modeling_{place}")
    connection, head = (getattr(classes, f"{prefix}Hyper{part}") for part in ("Connection", "Head"))
    modules = {site: connection(config) for site in ("attention 0", "mlp 0")}
    modules["head"] = head() if place == "glm5_next" else head(config)
    tensors = {f"{site} {name.removeprefix('hc_')}": weight.normal_()
               for site, module in modules.items()
               for name, weight in module.requires_grad_(False).named_parameters()}
    sites = {site: {part: f"{site} {part}" for part in PARTS} for site in modules}
    settings = settings_of(config.to_dict() | {"model_type": request.param})
    return Checkpoint("x", "", "transformers", settings, sites, tensors, 0), modules


def weighed(weights, states):
    return (weights.unsqueeze(-2) @ states).squeeze(-2)


@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0], ids=["zero", "ordinary", "large"])
def test_the_maps_are_those_of_the_released_class(released, scale):
    checkpoint, modules = released
    states = scale * torch.randn(2, 3, checkpoint.settings.streams, D)
    static = static_maps(checkpoint)
    for k, site in enumerate(checkpoint.sublayers):
        post, *comb, collapsed = modules[site](states)
        maps = [maps_at(checkpoint, site, states)]
        if scale == 0:
            maps.append(type(static)(*(part[k].expand(2, 3, *part.shape[1:]) for part in static)))
        for read, write, mix in maps:
            assert_close(write, post, **CLOSE)
            assert_close(weighed(read, states), collapsed, rtol=0, atol=1e-4)
            identity = torch.eye(checkpoint.settings.streams).expand_as(mix)
            assert_close(mix, comb[0].mT if comb else identity, **CLOSE)
    weights = readout(checkpoint, states)
    assert_close(weighed(weights, states), modules["head"](states), rtol=0, atol=1e-4)
    if scale == 0:
        assert_close(weights, readout(checkpoint).expand_as(weights), rtol=0, atol=1e-6)


def test_the_maps_of_a_sentence_are_those_of_the_model(tiny):
    tokens, theirs = torch.arange(1, 12)[None], []
    hooks = [connection.register_forward_hook(lambda m, x, y: theirs.append((*y, x[0])))
             for layer in tiny.model.model.layers
             for connection in (layer.attn_hc, layer.ffn_hc)]
    before = tiny.model(tokens).logits
    for hook in hooks:
        hook.remove()
    maps = maps_of(tiny.model, tokens)
    for k, (post, comb, collapsed, state) in enumerate(theirs):
        assert_close(maps.write[k], post, **CLOSE)
        assert_close(maps.mix[k], comb.mT, **CLOSE)
        assert_close(weighed(maps.read[k], state), collapsed, **CLOSE)
    assert torch.equal(tiny.model(tokens).logits, before) and len(theirs) == 8
    with pytest.raises(TypeError):
        maps_of(tiny.model, tokens, input_ids=tokens)
    assert not any(module._forward_pre_hooks for module in tiny.model.modules()), "none is left"


def test_a_file_and_a_loaded_model_give_the_same_maps(tiny, opened):
    stored, loaded = opened(tiny.folder, fn=True), of_model(tiny.model)
    states = torch.randn(3, 4, 32)
    assert all(map(torch.equal, static_maps(stored), static_maps(loaded)))
    assert all(map(torch.equal, maps_at(stored, "mlp 3", states), maps_at(loaded, "mlp 3", states)))


# ---------------------------------------------------------------- names

@pytest.mark.parametrize("names", SPELLINGS, ids=lambda names: names.whose)
@pytest.mark.parametrize("before", ["", "model.", "model.language_model."])
def test_every_spelling_is_found_with_any_prefix(names, before):
    hy = names.whose == "Hy4's files"
    settings = settings_of(CONFIG | {"model_type": "hy_v4" if hy else "deepseek_v4"})
    stored = [before + pattern.format(i=i, part=part) for part in PARTS for i in range(2)
              for pattern in (names.attention, names.mlp)]
    stored += [before + names.head.format(part=part) for part in PARTS]
    extra = ["layers.2.hc_attn_base", "mtp.0.hc_attn_base", "layers.0.attn.wq.weight"]
    whose, sites = find_names([*stored, *(before + name for name in extra)], settings)
    assert whose == names.whose
    assert list(sites) == ["attention 0", "mlp 0", "attention 1", "mlp 1", "head"]
    assert sorted(name for site in sites.values() for name in site.values()) == sorted(stored)


@pytest.mark.parametrize("whose, model_type", [
    ("DeepSeek-V4's files", "deepseek_v4"), ("DeepSeek-V4's files", "glm5_next"),
    ("Hy4's files", "hy_v4")])
@pytest.mark.parametrize("dropped", ["", "hc_pre."])
def test_transformers_renames_the_published_names_to_its_own(transformers, whose, model_type,
                                                             dropped):
    from transformers.conversion_mapping import get_checkpoint_conversion_mapping
    rules = [pair for rule in get_checkpoint_conversion_mapping(model_type)
             if type(rule).__name__ == "WeightRenaming"
             for pair in zip(rule.source_patterns, rule.target_patterns, strict=True)]
    spelling = {names.whose: names for names in SPELLINGS}
    kinds = ("attention", "mlp", "head") if KINDS[model_type].head else ("attention", "mlp")
    for kind, part in ((kind, part) for kind in kinds for part in PARTS):
        name, own = (getattr(spelling[of], kind).format(i=3, part=part)
                     for of in (whose, "transformers"))
        if model_type == "hy_v4":
            name, own = "model." + name.replace(".hc_", f".{dropped}hc_", 1), "model." + own
        for source, target in rules:
            name = re.sub(source, target, name)
        assert name == own


def test_a_nested_config_and_another_name_for_the_same_equations():
    inside = settings_of({"model_type": "glm5_next", "text_config": CONFIG
                          | {"model_type": "glm5_next_text"}})
    assert inside.model_type == "glm5_next_text" and inside.streams == 4
    assert settings_of(CONFIG | {"model_type": "small"}, like="deepseek_v4").iterations == 20
