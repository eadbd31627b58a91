"""A backbone that decodes gives what the whole sequence gives, and its table has a spread."""

import json
from collections import Counter
from unittest.mock import patch

import pytest
import torch
from shared_clock import lacks

from benchmarks import tokens
from geolab import kernels
from geolab.models import Transformer
from geolab.residuals.additive import Additive

SIZE = {"width": 16, "layers": 2, "heads": 2, "hidden": 24, "length": 6, "repeats": 3}
TINY = [word for name, value in SIZE.items() for word in (f"--{name}", str(value))]
CONFIG = tokens.configuration(SIZE)


class Shifted(Additive):
    """A residual that adds the state of the position before."""

    def forward(self, state, sublayer):
        return super().forward(state + torch.nn.functional.pad(state, (0, 0, 1, -1)), sublayer)


@pytest.mark.parametrize("residual", ["additive", "mhc", "hyper", "jpmhc", "delta"])
def test_one_position_at_a_time_gives_what_the_whole_sequence_gives(residual):
    torch.manual_seed(0)
    model = Transformer(CONFIG, residual).double()
    x = torch.randn(3, 6, 16, dtype=torch.float64)
    decoder = tokens.Decoder(model, "eager", tokens.room(CONFIG, 3, 6, x))
    found = torch.cat([decoder(x[:, t:t + 1], t) for t in range(6)], dim=1)
    torch.testing.assert_close(found, model(x), rtol=0, atol=1e-12)
    assert not found.requires_grad
    assert {id(p) for p in decoder.parameters()} == {id(p) for p in model.parameters()}


def test_in_half_precision_a_residual_keeps_its_own_weights():
    model = tokens.lowered(Transformer(CONFIG, "mhc"), torch.bfloat16)
    kept = {name: p.dtype for name, p in model.named_parameters()}
    assert {kept[name] for name in kept if ".residual." in name} == {torch.float32}
    assert {kept[name] for name in kept if ".mix." in name} == {torch.bfloat16}
    assert tokens.error(model, "eager", torch.randn(2, 4, 16).bfloat16()) < 0.05


@pytest.mark.skipif(not kernels.TWINS or torch.cuda.is_available(),
                    reason="kernels run here in Triton's interpreter")
def test_with_kernels_it_decodes_the_same_and_its_sublayers_join(monkeypatch):
    monkeypatch.setitem(tokens.MODES, "kernels", ("always", False))
    torch.manual_seed(0)
    calls = Counter()
    twins = {name: lambda *args, name=name, twin=twin, **options: (
        calls.update([name]), twin(*args, **options))[1] for name, twin in kernels.TWINS.items()}
    with patch.dict(kernels.TWINS, twins):
        error = tokens.error(Transformer(CONFIG, "mhc"), "kernels", torch.randn(2, 2, 16))
    assert error < tokens.TOLERANCE[torch.float32]
    assert calls == {"constrained_join": 4, "stream_mix_write": 1}


def test_on_a_cpu_it_writes_ratios_alone_in_a_file_per_number_of_sequences(tmp_path, capsys):
    tokens.main(["--device", "cpu", "--only", "mhc,value-residual", "--batch", "1", "3", *TINY,
                 "--out", str(tmp_path / "tokens.json")])
    assert {path.name for path in tmp_path.iterdir()} == {"tokens.batch-1.json",
                                                          "tokens.batch-3.json"}
    for batch in (1, 3):
        found = json.loads((tmp_path / f"tokens.batch-{batch}.json").read_text())
        assert found["batch"] == batch and found["size"] == SIZE and not lacks(found)
        plain, mhc, refused = found["rows"]
        assert [plain["residual"], mhc["residual"]] == ["additive", "mhc"]
        for row in (plain, mhc):
            low, high = row["ratio_deciles"]
            assert low <= row["ratio"] <= high and row["again"] > 0 and row["error"] < 1e-4
            assert not {"us", "tokens_per_second"} & row.keys()
        assert "attention that takes values" in refused["failed"] and "ratio" not in refused
    assert "tokens/s" not in capsys.readouterr().out


def test_what_reads_other_positions_has_no_time():
    _, (row,) = tokens.turns_of(Transformer(CONFIG, Shifted), ["eager"], torch.randn(2, 4, 16),
                                tokens.room(CONFIG, 2, 6, torch.zeros(1)))
    assert "from the whole sequence at once" in row["failed"]


def test_tokens_per_second_follow_from_the_times(monkeypatch):
    """A stand-in for a device: the plain step takes 8 ms, ours 12 ms, in every turn of 8 steps."""
    class OnDevice:
        is_cuda = True

        def __len__(self):
            return 64

    def turns(runs, rounds, meanwhile):
        meanwhile()
        seconds = {"plain": 0.064, "again": 0.064, "own": 0.096}
        return {(who, mode): [seconds[who]] * rounds for who, mode in runs}

    monkeypatch.setattr(tokens, "turns", turns)
    monkeypatch.setattr(tokens, "clocks", lambda: {"MHz": 1980.0})
    rows = [{"residual": "mhc", "mode": "kernels", "error": 1e-3}]
    tokens.compare(rows, dict.fromkeys((("plain", "eager"), ("again", "eager"),
                                        ("own", "kernels"))), OnDevice(), SIZE)
    assert rows[0]["ratio"] == 1.5 and rows[0]["again"] == 1 and rows[0]["us"] == 12000
    assert rows[0]["tokens_per_second"] == pytest.approx(64 / 0.012, rel=1e-3)
    assert rows[0]["clocks"] == {"MHz": 1980.0} and not lacks({"rows": rows})
    assert "5333 tokens/s" in tokens.line(rows[0])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="times need a GPU")
def test_it_measures(tmp_path):
    tokens.main(["--batch", "2", "--modes", "eager,kernels", "--width", "256", "--heads", "4",
                 "--hidden", "512", "--length", "64", "--repeats", "5", "--out",
                 str(tmp_path / "tokens.json")])
    found = json.loads((tmp_path / "tokens.batch-2.json").read_text())
    assert not lacks(found) and all(row["tokens_per_second"] > 0 for row in found["rows"])
