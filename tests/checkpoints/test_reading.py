"""What is read equals what was stored, byte for byte, and no other byte is read."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from geolab.checkpoints import read, survey
from geolab.checkpoints.names import PARTS


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
    model, found = tiny.model.state_dict(), 0
    for site, parts in checkpoint.sites.items():
        assert set(parts) == set(PARTS if fn else PARTS[1:])
        kind, _, i = site.partition(" ")
        for part in parts:
            place = f"hc_head.hc_{part}" if site == "head" else (
                f"layers.{i}.{'attn' if kind == 'attention' else 'ffn'}_hc.{part}")
            torch.testing.assert_close(checkpoint.part(site, part), model[f"model.{place}"],
                                       rtol=0, atol=0)
            found += 1
    return found == 9 * (3 if fn else 2)


@pytest.mark.parametrize("fn", [False, True])
@pytest.mark.parametrize("kind", ["folder", "file", "url", "url of a file", "sharded",
                                  "sharded url", "redirect"])
def test_the_tensors_are_those_of_the_model(tiny, sharded, serve, kind, fn):
    folder = sharded if "sharded" in kind else tiny.folder
    address = str(folder) if kind in ("folder", "sharded") else folder / "model.safetensors"
    if kind in ("url", "url of a file", "sharded url", "redirect"):
        address, _ = serve(folder, "redirect" if kind == "redirect" else "ranges")
        if kind == "url of a file":
            address += "model.safetensors?signature=1"
    found = survey(address, fn=fn, tell=lambda line: None)
    first, again = (read(found, tell=lambda line: None) for _ in range(2))
    assert same(first, tiny, fn) and same(again, tiny, fn) and first.bytes == again.bytes


def test_each_byte_is_counted_and_told_before_it_is_read(tiny, sharded, serve):
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
    assert checkpoint.bytes == came + whole < (sharded / "model-00002-of-00003.safetensors"
                                               ).stat().st_size
    assert not [name for name, *_ in log if "00002" in name], "it holds no residual"
    assert len(log) - before < len(checkpoint.tensors), "neighbours come in one request"
    assert f"{found.bytes} bytes in {len(log) - before} requests" in lines[-1]
    assert len(lines) == 4  # config, index, headers, tensors


def test_a_folder_and_a_server_cost_the_same_bytes(tiny, serve, opened):
    assert opened(tiny.folder).bytes == opened(serve(tiny.folder)[0]).bytes


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
    for path, text in (("api/models/a/b/revision/v1", json.dumps({"sha": commit})),
                       (f"a/b/resolve/{commit}/config.json", json.dumps(tiny.config,
                                                                        default=str))):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    (tmp_path / f"a/b/resolve/{commit}/model.safetensors").write_bytes(
        (tiny.folder / "model.safetensors").read_bytes())
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
