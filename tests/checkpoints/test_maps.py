"""The maps of a checkpoint are those that the released classes compute."""

import re
from importlib import import_module

import pytest
import torch

from geolab.checkpoints import maps_at, maps_of, of_model, readout, static_maps
from geolab.checkpoints.maps import coefficients
from geolab.checkpoints.names import KINDS, PARTS, SPELLINGS, find_names, settings_of
from geolab.checkpoints.survey import Checkpoint

D, CLASSES = 8, {  # model type -> module, config, connection and head of transformers
    "deepseek_v4": ("deepseek_v4", "DeepseekV4Config", "DeepseekV4HyperConnection",
                    "DeepseekV4HyperHead"),
    "glm5_next": ("glm5_next", "Glm5NextTextConfig", "Glm5NextTextHyperConnection",
                  "Glm5NextTextHyperHead"),
    "glm5_next_text": ("glm5_next", "Glm5NextTextConfig", "Glm5NextTextHyperConnection",
                       "Glm5NextTextHyperHead"),
    "hy_v4": ("hy_v4", "HYV4Config", "HYV4HyperConnection", "HYV4HyperHead"),
}
OTHER = {"hc_sinkhorn_iters": 3, "hc_magnitude": 1.5}  # than the library's defaults


@pytest.fixture(params=KINDS)
def released(request, transformers):
    """A checkpoint of one layer, and the library's own connections and head, at sharp weights."""
    place, config, connection, head = CLASSES[request.param]
    config = getattr(import_module(f"transformers.models.{place}"), config)(
        hidden_size=D, num_hidden_layers=1, hc_eps=1e-3, rms_norm_eps=1e-2,
        **{key: OTHER[key] for key in KINDS[request.param].keys})
    classes = import_module(f"transformers.models.{place}.modeling_{place}")
    modules = {site: getattr(classes, connection)(config) for site in ("attention 0", "mlp 0")}
    head = getattr(classes, head)
    modules["head"] = head() if head.__name__.startswith("Glm") else head(config)
    tensors = {}
    for site, module in modules.items():
        for name, weight in module.requires_grad_(False).named_parameters():
            tensors[f"{site} {name.removeprefix('hc_')}"] = weight.normal_()
    sites = {site: {part: f"{site} {part}" for part in PARTS} for site in modules}
    settings = settings_of(config.to_dict() | {"model_type": request.param})
    return Checkpoint("x", "", "transformers", settings, sites, tensors, 0), modules


def difference(ours, theirs):
    return float((ours - theirs).abs().max())


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
        for read_, write, mix in maps:
            assert difference(write, post) < 1e-5
            assert difference((read_.unsqueeze(-2) @ states).squeeze(-2), collapsed) < 1e-4
            identity = torch.eye(checkpoint.settings.streams).expand_as(mix)
            assert difference(mix, comb[0].mT if comb else identity) < 1e-5
    weights = readout(checkpoint, states)
    assert difference((weights.unsqueeze(-2) @ states).squeeze(-2), modules["head"](states)) < 1e-4
    if scale == 0:
        assert difference(weights, readout(checkpoint).expand_as(weights)) < 1e-6


def test_the_maps_of_a_sentence_are_those_of_the_model(tiny):
    tokens, theirs = torch.arange(1, 12)[None], []
    layers = tiny.model.model.layers
    hooks = [connection.register_forward_hook(lambda m, x, y: theirs.append((*y, x[0])))
             for layer in layers for connection in (layer.attn_hc, layer.ffn_hc)]
    before = tiny.model(tokens).logits
    for hook in hooks:
        hook.remove()
    maps = maps_of(tiny.model, tokens)
    for k, (post, comb, collapsed, state) in enumerate(theirs):
        assert difference(maps.write[k], post) < 1e-5
        assert difference(maps.mix[k], comb.mT) < 1e-5
        assert difference((maps.read[k].unsqueeze(-2) @ state).squeeze(-2), collapsed) < 1e-5
    assert torch.equal(tiny.model(tokens).logits, before) and len(theirs) == 8
    with pytest.raises(TypeError):
        maps_of(tiny.model, tokens, input_ids=tokens)
    assert not any(module._forward_pre_hooks for module in tiny.model.modules()), "none is left"


def test_a_file_and_a_loaded_model_give_the_same_maps(tiny, opened):
    stored = opened(tiny.folder, fn=True)
    states = torch.randn(3, 4, 32)
    for ours, loaded in ((static_maps(stored), static_maps(of_model(tiny.model))),
                         (maps_at(stored, "mlp 3", states),
                          maps_at(of_model(tiny.model), "mlp 3", states))):
        assert all(map(torch.equal, ours, loaded))


def test_what_can_t_be_computed_is_refused(tiny, opened):
    stored, full = opened(tiny.folder), of_model(tiny.model)
    skipping = type("Lazy", (type(tiny.model),), {"forward": lambda self, x: x})
    for call, message in (
            (lambda: maps_at(stored, "mlp 0", torch.randn(4, 32)),
             r"fn of mlp 0 must have been read: survey\(…, fn=True"),
            (lambda: maps_at(full, "mlp 0", torch.randn(4, 31)),
             r"states must be \(..., 4, 32\), got shape \(4, 31\)"),
            (lambda: maps_at(full, "mlp 9", torch.randn(4, 32)),
             "site must be one of attention 0, .* got 'mlp 9'"),
            (lambda: maps_at(full, "head", torch.randn(4, 32)),
             "readout gives the weights of the head"),
            (lambda: maps_of(skipping(tiny.model.config), torch.zeros(1)),
             "must call the residual of each sublayer once")):
        with pytest.raises(ValueError, match=message):
            call()


# ---------------------------------------------------------------- names

TYPES = {"DeepSeek-V4's files": ("deepseek_v4", "glm5_next"), "Hy4's files": ("hy_v4",)}


@pytest.mark.parametrize("names", SPELLINGS, ids=lambda names: names.whose)
@pytest.mark.parametrize("before", ["", "model.", "model.language_model."])
def test_every_spelling_is_found_with_any_prefix(names, before):
    mixes = names.whose != "Hy4's files"
    settings = settings_of(CONFIG | {"model_type": "deepseek_v4" if mixes else "hy_v4"})
    stored = [before + pattern.format(i=i, part=part) for part in PARTS for i in range(2)
              for pattern in (names.attention, names.mlp)]
    stored += [before + names.head.format(part=part) for part in PARTS]
    extra = ["layers.2.hc_attn_base", "mtp.0.hc_attn_base", "layers.0.attn.wq.weight"]
    whose, sites = find_names([*stored, *(before + name for name in extra)], settings)
    assert whose == names.whose
    assert list(sites) == ["attention 0", "mlp 0", "attention 1", "mlp 1", "head"]
    assert sorted(name for site in sites.values() for name in site.values()) == sorted(stored)


CONFIG = dict(num_hidden_layers=2, hidden_size=D, hc_mult=4, hc_eps=1e-6, rms_norm_eps=1e-6,
              hc_sinkhorn_iters=20, hc_magnitude=2.0)


@pytest.mark.parametrize("key", sorted(CONFIG.keys() - {"hc_sinkhorn_iters"}))  # which Hy4 lacks
def test_what_is_no_number_in_a_config_is_named(key):
    with pytest.raises(ValueError, match=rf"^{key} of config.json must be a (whole|finite) num"):
        settings_of(CONFIG | {"model_type": "hy_v4", key: None})


@pytest.mark.parametrize("whose, model_type", [(whose, one) for whose, types in TYPES.items()
                                               for one in types])
@pytest.mark.parametrize("dropped", ["", "hc_pre."])
def test_transformers_renames_the_published_names_to_its_own(transformers, whose, model_type,
                                                            dropped):
    from transformers.conversion_mapping import get_checkpoint_conversion_mapping
    rules = [(rule.source_patterns, rule.target_patterns)
             for rule in get_checkpoint_conversion_mapping(model_type)
             if type(rule).__name__ == "WeightRenaming"]
    spelling = {names.whose: names for names in SPELLINGS}
    for kind in ("attention", "mlp", "head"):
        if kind == "head" and not KINDS[model_type].head:
            continue
        for part in PARTS:
            name = getattr(spelling[whose], kind).format(i=3, part=part)
            own = getattr(spelling["transformers"], kind).format(i=3, part=part)
            if model_type == "hy_v4":
                name, own = "model." + name, "model." + own
                name = name.replace(".hc_", f".{dropped}hc_", 1)
            for sources, targets in rules:
                for source, target in zip(sources, targets, strict=True):
                    name = re.sub(source, target, name)
            assert name == own


def test_a_nested_config_and_another_name_for_the_same_equations():
    inside = settings_of({"model_type": "glm5_next", "text_config": CONFIG
                          | {"model_type": "glm5_next_text"}})
    assert inside.model_type == "glm5_next_text" and inside.streams == 4
    assert settings_of(CONFIG | {"model_type": "small"}, like="deepseek_v4").iterations == 20
    assert coefficients(torch.zeros(24), inside).mix.shape == (4, 4)
