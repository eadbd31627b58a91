import re

import pytest
import torch

from geolab.models import Transformer, TransformerConfig
from geolab.models import __main__ as table
from geolab.papers.configurations import EMHC
from geolab.residuals import REGISTRY

FOUR_TIMES = {"delta-matrix", "hyper", "mhc", "jpmhc", "benchmark-jpmhc", "emhc-stream"}  # the sublayer's width


def rows(text):
    return {line[:16].strip(): line for line in text.splitlines()}


def test_one_row_a_residual_and_one_for_torch(capsys):
    table.main(["--width", "16", "--layers", "1", "--batch", "2", "--length", "5", "--repeats", "1"])
    printed = rows(capsys.readouterr().out)
    assert list(printed) == ["residual", *REGISTRY, "(torch's own)"]
    for name in REGISTRY:
        trunk = Transformer(TransformerConfig.benchmark(16, 1, max_length=8), name)
        parameters, state, causal, ratio = re.split(r"\s+", printed[name][16:].strip())[:4]
        assert int(parameters.replace(",", "")) == sum(p.numel() for p in trunk.parameters())
        assert int(state) == (64 if name in FOUR_TIMES else 16)
        assert causal == "yes" and float(ratio) > 0
        assert printed[name].endswith(REGISTRY[name].spectrum)
    assert " 1.00 " in printed["additive"]


def test_the_row_of_a_model_that_reads_the_future_says_so():
    config = TransformerConfig.benchmark(16, 1, max_length=8)
    text = table.table({"whole": (config, "emhc-cayley", {"pool": "sequence"}), "so far": (config, "emhc-cayley", {})}, 2, 5, 1)
    assert " no " in rows(text)["whole"] and " yes " in rows(text)["so far"]


def test_the_published_models_are_the_rows_of_table_5(monkeypatch):
    seen = []
    monkeypatch.setattr(table, "table", lambda *given: seen.append(given))
    table.main(["--table5"])
    (models, batch, length, _), = seen
    assert list(models) == [*EMHC, "emhc-stream"] and (batch, length) == (64, 127)


def test_torchs_own_network_is_ours_without_a_residual_of_its_own():
    config = TransformerConfig.benchmark(16, 2, max_length=8)
    ours, theirs = Transformer(config).double().eval(), table.PlainTorch(config).double().eval()
    with torch.no_grad():
        theirs.position.copy_(ours.position)
        theirs.encoder.norm.weight.copy_(ours.norm.weight)
        for block, attention, mlp in zip(theirs.encoder.layers, ours.layers[::2], ours.layers[1::2], strict=True):
            block.self_attn.in_proj_weight.copy_(attention.mix.qkv.weight)
            block.self_attn.out_proj.weight.copy_(attention.mix.out.weight)
            block.linear1.weight.copy_(mlp.mix.up.weight)
            block.linear2.weight.copy_(mlp.mix.out.weight)
    x = torch.randn(2, 7, 16, dtype=torch.float64)
    torch.testing.assert_close(theirs(x), ours(x), rtol=0, atol=1e-12)


def test_models_take_turns(monkeypatch):
    order = []
    monkeypatch.setattr(table, "training_step", lambda model, x: lambda: order.append(model))
    assert len(table.step_times(["a", "b"], None, repeats=2)) == 2
    assert order == ["a", "b"] * 3  # the first round warms up


@pytest.mark.parametrize("arguments, message", [
    (["--batch", "0"], "--batch must be at least 1, got 0"), (["--width", "10"], "width must be divisible by heads")])
def test_a_bad_argument_is_named(arguments, message, capsys):
    with pytest.raises(SystemExit):
        table.main(arguments)
    assert message in capsys.readouterr().err
