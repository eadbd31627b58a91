import re

import pytest
import torch

from benchmarks import models as table
from geolab.models import ContinuousModel, Transformer, TransformerConfig
from geolab.probes import spectrum, states
from geolab.probes.shortcut import operators_by_layer
from geolab.residuals import REGISTRY
from studies.claims.configurations import EMHC, EMHC_STREAM

SMALL = ["--width", "16", "--layers", "1", "--batch", "2", "--length", "5", "--repeats", "1"]


def rows(text):
    return {re.split(r"\s{2,}", line)[0]: line for line in text.splitlines()}


def small(residual, **options):
    return Transformer(TransformerConfig.benchmark(16, 1, max_length=8), residual, **options)


@pytest.mark.parametrize("models, more", [
    ({name: (name, {}) for name in REGISTRY}, []), (table.VARIANTS, ["--variants"])],
    ids=["residuals", "variants"])
def test_there_is_a_row_per_model_and_one_for_torch(models, more, capsys):
    table.main([*SMALL, *more])
    printed = rows(capsys.readouterr().out)
    names = dict.fromkeys(("residual", "additive", *models, "(additive again)", "(torch's own)"))
    assert list(printed) == list(names) and " 1.00 0.00 " in printed["additive"]  # and its spread
    end = printed["residual"].index("causal") + len("causal")
    for name, (residual, options) in models.items():
        trunk = small(residual, **options)
        leaks = options.get("pool") == "sequence"
        parameters, state, _, ratio = re.split(r"\s+", printed[name])[1:5]
        assert int(parameters.replace(",", "")) == sum(p.numel() for p in trunk.parameters())
        assert int(state) == states(trunk, trunk.layers, torch.zeros(1, 1, 16))[0].numel()
        assert trunk.layers[0].residual.leaks == leaks and float(ratio) > 0
        # in its column, even if a name is long
        assert printed[name][:end].endswith("no" if leaks else "yes")
        assert printed[name].endswith(table.SHORTCUTS.get(name, REGISTRY[residual].spectrum))


def test_what_is_published_with_a_leak_is_a_variant():
    published = {c.residual for c in (*EMHC.values(), EMHC_STREAM)
                 if c.options.get("pool") == "sequence"}
    assert published <= {residual for residual, options in table.VARIANTS.values()
                         if options.get("pool") == "sequence"}


@pytest.mark.parametrize("name", [name for name, said in table.SHORTCUTS.items()
                                  if said.startswith("on the unit circle")])
def test_a_variant_said_to_stay_on_the_unit_circle_does(name):
    residual, options = table.VARIANTS[name]
    model = ContinuousModel(small(residual, **options), 3).double()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p), alpha=0.3)
    for layer in operators_by_layer(model, torch.randn(2, 7, 3, dtype=torch.float64)):
        values = spectrum(layer.mix).singular_values
        torch.testing.assert_close(values, torch.ones_like(values), rtol=0, atol=1e-12)


def test_torchs_own_network_is_ours_without_a_residual_of_its_own():
    config = TransformerConfig.benchmark(16, 2, max_length=8)
    ours, theirs = Transformer(config).double().eval(), table.PlainTorch(config).double().eval()
    with torch.no_grad():
        theirs.position.copy_(ours.position)
        theirs.encoder.norm.weight.copy_(ours.norm.weight)
        for block, attention, mlp in zip(theirs.encoder.layers, ours.layers[::2],
                                         ours.layers[1::2], strict=True):
            block.self_attn.in_proj_weight.copy_(attention.mix.qkv.weight)
            block.self_attn.out_proj.weight.copy_(attention.mix.out.weight)
            block.linear1.weight.copy_(mlp.mix.up.weight)
            block.linear2.weight.copy_(mlp.mix.out.weight)
    x = torch.randn(2, 7, 16, dtype=torch.float64)
    torch.testing.assert_close(theirs(x), ours(x), rtol=0, atol=1e-12)


def test_models_take_turns_in_another_order_each_round(monkeypatch):
    order = []
    monkeypatch.setattr(table, "training_step", lambda model, x: lambda: order.append(model))
    assert len(table.step_times(["a", "b", "c"], None, repeats=20)) == 3
    rounds = [tuple(order[k:k + 3]) for k in range(0, len(order), 3)]
    assert len(rounds) == 21  # the first round warms up
    assert all(sorted(r) == ["a", "b", "c"] for r in rounds) and len(set(rounds)) > 2


def test_a_machine_that_slows_down_changes_no_ratio(monkeypatch):
    # a round to warm up, and then rounds at different speeds
    cost, speed, took = {"a": 1.0, "b": 2.0}, [9.0, 1.0, 3.0, 10.0], []
    monkeypatch.setattr(table, "training_step", lambda model, x: model)
    monkeypatch.setattr(table, "_seconds", lambda step: took.append(step)
                        or speed[(len(took) - 1) // 2] * cost[step])
    assert table.step_times(["a", "b"], None, repeats=3) == [1.0, 2.0]
