"""What is read equals what was stored, byte for byte; no other byte is; and a record says so."""

import hashlib
import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from geolab.checkpoints import numbers, of_model, read, record, static_maps, store, survey
from geolab.checkpoints.__main__ import main
from geolab.checkpoints.names import PARTS
from geolab.probes import composite_gain, stream_consensus


@pytest.fixture
def sharded(tiny, tmp_path):
    """The tiny model in three files, with an index; the second one holds no residual."""
    weights = load_file(tiny.folder / "model.safetensors")
    own = [name for name in weights if "hc_" in name]
    shards = [own[:7], [name for name in weights if "hc_" not in name], own[7:]]
    places = {}
    for k, names in enumerate(shards):
        file = f"model-0000{k + 1}-of-00003.safetensors"
        save_file({name: weights[name] for name in names}, tmp_path / file)
        places |= dict.fromkeys(names, file)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    (tmp_path / "config.json").write_text((tiny.folder / "config.json").read_text())
    return tmp_path


def same(checkpoint, tiny, fn):
    model, parts = tiny.model.state_dict(), PARTS if fn else PARTS[1:]
    for site, found in checkpoint.sites.items():
        assert set(found) == set(parts)
        kind, _, i = site.partition(" ")
        place = "hc_head.hc_" if site == "head" else (
            f"layers.{i}.{'attn' if kind == 'attention' else 'ffn'}_hc.")
        assert all(torch.equal(checkpoint.part(site, part), model[f"model.{place}{part}"])
                   for part in parts), site
    return len(checkpoint.sites) == 9


@pytest.mark.parametrize("fn", [False, True])
@pytest.mark.parametrize("kind", ["folder", "file", "url", "url of a file", "sharded",
                                  "sharded url", "redirect"])
def test_the_tensors_are_those_of_the_model(tiny, sharded, serve, kind, fn):
    folder = sharded if "sharded" in kind else tiny.folder
    address = str(folder) if kind in ("folder", "sharded") else folder / "model.safetensors"
    if kind not in ("folder", "sharded", "file"):
        address, _ = serve(folder, "redirect" if kind == "redirect" else "ranges")
        if kind == "url of a file":
            address += "model.safetensors?signature=1"
    found = survey(address, fn=fn, tell=lambda line: None)
    first, again = (read(found, tell=lambda line: None) for _ in range(2))
    assert same(first, tiny, fn) and same(again, tiny, fn) and first.bytes == again.bytes


def test_each_byte_is_counted_and_told_before_it_is_read(tiny, sharded, serve, opened):
    url, log = serve(sharded)
    lines = []
    found = survey(url, fn=True, tell=lines.append)
    before = len(log)
    assert not [span for _, span, _ in log if span and span != "bytes=0-7"][3:]
    checkpoint = read(found, tell=lines.append)
    assert found.bytes == sum(t.nbytes for t in checkpoint.tensors.values())
    spans = [span for _, span, _ in log if span]
    came = sum(int(span.split("-")[1]) - int(span[6:].split("-")[0]) + 1 for span in spans)
    whole = sum((sharded / name).stat().st_size for name, span, _ in log if not span)
    assert checkpoint.bytes == came + whole
    assert checkpoint.bytes == opened(sharded, fn=True).bytes, "a folder costs as much"
    assert not [name for name, *_ in log if "00002" in name], "it holds no residual"
    assert len(log) - before < len(checkpoint.tensors), "neighbours come in one request"
    assert f"{found.bytes} bytes in {len(log) - before} requests" in lines[-1]
    assert len(lines) == 4  # config, index, headers, tensors


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_any_floats_are_read_as_they_are(tiny, tmp_path, serve, opened, dtype):
    weights = {name: weight.to(dtype) for name, weight
               in load_file(tiny.folder / "model.safetensors").items() if "hc_" in name}
    save_file(weights, tmp_path / "model.safetensors")
    for address in (tmp_path, serve(tmp_path)[0]):
        found = opened(address, fn=True, config=tiny.config).tensors
        assert all(torch.equal(found[name], weight) for name, weight in weights.items())


def test_a_name_of_the_hub_is_read_at_its_commit_and_the_token_stays_there(
        tiny, serve, opened, tmp_path, monkeypatch):
    from huggingface_hub import constants
    commit = "0123456789abcdef" * 2 + "01234567"
    files = {"api/models/a/b/revision/v1": json.dumps({"sha": commit}).encode()}
    files |= {f"a/b/resolve/{commit}/{path.name}": path.read_bytes()
              for path in tiny.folder.iterdir()}
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    url, log = serve(tmp_path, "redirect")
    page = "https://huggingface.co/a/b/tree/main"  # what a reader copies from a browser
    monkeypatch.setattr(constants, "ENDPOINT", url.rstrip("/"))
    monkeypatch.setattr("huggingface_hub.get_token", lambda: "secret")
    for address in (page, "a/b"):
        log.clear()
        checkpoint = opened(address, revision="v1")
        assert checkpoint.revision == commit and same(checkpoint, tiny, fn=False)
    assert log[0][2] == "Bearer secret"
    moved = [token for name, _, token in log if name.endswith(".safetensors")][1::2]
    assert moved and not any(moved)
    with pytest.raises(FileNotFoundError, match="a/b must be a folder .* revision 'main'"):
        opened("a/b")


# ---------------------------------------------------------------- the record

def test_a_record_has_the_probes_numbers_and_says_where_they_come_from(tiny, opened, tmp_path):
    checkpoint = opened(tiny.folder)
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
    mix = static_maps(checkpoint).mix
    gain, share = composite_gain(mix), stream_consensus(mix)
    assert list(numbers(checkpoint)) == checkpoint.sublayers
    for k, row in enumerate(found["numbers"].values()):
        assert row["gain"] == float(gain.forward[k])
        assert row["gain of gradients"] == float(gain.backward[k])
        assert row["consensus"] == float(share[k])
        assert row["distance to identity"] == pytest.approx(
            float((mix[k] - torch.eye(4)).square().sum().sqrt()))
    assert record(of_model(tiny.model))["address"] == "DeepseekV4ForCausalLM"


def test_a_file_is_replaced_only_when_told_and_never_half(tiny, opened, tmp_path):
    checkpoint, path = opened(tiny.folder), tmp_path / "a.json"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="is there already: give another path"):
        store(checkpoint, path)
    with pytest.raises(ValueError):
        store(checkpoint._replace(bytes=float("nan")), path, replace=True)
    assert path.read_text() == "mine" and list(tmp_path.iterdir()) == [path]
    store(checkpoint, path, replace=True)
    assert json.loads(path.read_text())["names"] == "DeepSeek-V4's files"
    assert list(tmp_path.iterdir()) == [path]


def test_the_command_prints_bytes_and_numbers_and_stores_them(tiny, serve, tmp_path, capsys):
    file = tmp_path / "a.json"
    main([serve(tiny.folder)[0], "--store", str(file)])
    text, told = capsys.readouterr().out, json.loads(file.read_text())
    assert f"{told['bytes']} bytes in all. deepseek_v4" in text and "4 layers, 4 streams" in text
    rows = {line[:6]: line.split()[2:] for line in text.splitlines()}
    assert float(rows["mlp 2 "][0]) == pytest.approx(told["numbers"]["mlp 2"]["gain"], abs=1e-3)
    with pytest.raises(SystemExit, match="is there already"):
        main([str(tiny.folder), "--store", str(file)])
