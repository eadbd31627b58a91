"""Numbers of a checkpoint, their file, and the command line."""

import hashlib
import json

import pytest
import torch

from geolab.checkpoints import numbers, of_model, record, static_maps, store
from geolab.checkpoints.__main__ import main
from geolab.probes import composite_gain, stream_consensus


@pytest.fixture
def checkpoint(tiny, opened):
    return opened(tiny.folder)


def test_the_numbers_are_the_probes(checkpoint):
    mix, found = static_maps(checkpoint).mix, numbers(checkpoint)
    assert list(found) == checkpoint.sublayers
    gain, share = composite_gain(mix), stream_consensus(mix)
    for k, row in enumerate(found.values()):
        assert row["gain"] == float(gain.forward[k])
        assert row["gain of gradients"] == float(gain.backward[k])
        assert row["consensus"] == float(share[k])
        assert row["distance to identity"] == pytest.approx(
            float((mix[k] - torch.eye(4)).square().sum().sqrt()))


def test_a_record_says_where_its_numbers_come_from(checkpoint, tiny, tmp_path):
    store(checkpoint, tmp_path / "a.json")
    found = json.loads((tmp_path / "a.json").read_text())
    assert found == json.loads(json.dumps(record(checkpoint)))
    assert found["address"] == str(tiny.folder) and found["bytes"] == checkpoint.bytes
    raw = (tiny.folder / "model.safetensors").read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    assert len(found["tensors"]) == 18
    for name, told in found["tensors"].items():
        begin, end = header[name]["data_offsets"]
        assert told["sha256"] == hashlib.sha256(raw[start + begin:start + end]).hexdigest()
        assert told["shape"] == header[name]["shape"]


def test_a_file_is_replaced_only_when_told_and_never_half(checkpoint, tmp_path):
    path = tmp_path / "a.json"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="is there already: give another path"):
        store(checkpoint, path)
    assert path.read_text() == "mine"
    broken = checkpoint._replace(bytes=float("nan"))
    with pytest.raises(ValueError):
        store(broken, path, replace=True)
    assert path.read_text() == "mine" and list(tmp_path.iterdir()) == [path]
    store(checkpoint, path, replace=True)
    assert json.loads(path.read_text())["names"] == "DeepSeek-V4's files"
    assert list(tmp_path.iterdir()) == [path]


def test_the_command_prints_bytes_and_numbers(tiny, serve, tmp_path, capsys):
    file = tmp_path / "a.json"
    main([serve(tiny.folder)[0], "--store", str(file)])
    text = capsys.readouterr().out
    told = json.loads(file.read_text())
    assert f"18 tensors: {8 * (96 + 12) + 16 + 4} bytes" in text
    assert f"{told['bytes']} bytes in all. deepseek_v4" in text and "4 layers, 4 streams" in text
    rows = [line.split() for line in text.splitlines() if line.startswith(("attention", "mlp"))]
    assert len(rows) == 8
    row = told["numbers"]["mlp 2"]
    assert float(rows[5][2]) == pytest.approx(row["gain"], abs=1e-3)
    assert float(rows[5][4]) == pytest.approx(row["consensus"], rel=0.1)
    with pytest.raises(SystemExit, match="is there already"):
        main([str(tiny.folder), "--store", str(file)])
    with pytest.raises(SystemExit, match="address must be a folder"):
        main(["./nowhere"])


def test_a_loaded_model_has_a_record_too(tiny):
    assert record(of_model(tiny.model))["address"] == "DeepseekV4ForCausalLM"
