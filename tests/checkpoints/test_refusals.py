"""What can't be read is refused by name, before more is read."""

import json
import struct
import sys
from pathlib import Path

import pytest
import tomllib
import torch
from safetensors.torch import load_file, save_file

SERVERS = {
    "no ranges": (ValueError, "status 206, got 200 and all of its .* Download the file"),
    "says nothing of the range": (ValueError, "bytes 0-7 of its size, got ''"),
    "another range": (ValueError, "must answer with bytes 8-"),
    "less than it says": (ConnectionError, "must have 8 bytes from 0 on, and 7 came"),
    "less": (ConnectionError, "must have 8 bytes from 0 on, and 7 came"),
    "more": (ValueError, "at most 8 bytes, got 108"),
    "more than it says": (ValueError, "at most 8 bytes, and more came"),
    "zipped": (ValueError, "as it is, got the encoding gzip"),
    "changes": (ConnectionError, "changed while it was read"),
    "gone": (FileNotFoundError, "must be there, or model.safetensors.index.json beside it"),
    "gated": (PermissionError, "status 401.*hf auth login"),
    "forbidden": (PermissionError, "status 403"),
    "overloaded": (ConnectionError, "status 503"),
    "silent": (TimeoutError, "within 0.2 s"),
    "a byte at a time": (TimeoutError, "within 0.2 s"),
}


@pytest.mark.parametrize("how", SERVERS)
def test_a_server_that_does_otherwise(tiny, serve, opened, how):
    error, message = SERVERS[how]
    url, log = serve(tiny.folder, how)
    with pytest.raises(error, match=message) as raised:
        opened(url, timeout=0.2)
    assert "model.safetensors" in str(raised.value)
    assert len([name for name, *_ in log if name == "model.safetensors"]) <= 2


def test_a_server_that_isn_t_there(opened):
    with pytest.raises(ConnectionError, match="can't be reached"):
        opened("http://127.0.0.1:9/", timeout=2)


# ---------------------------------------------------------------- files that lie

def parts(tiny):
    raw = (tiny.folder / "model.safetensors").read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    return json.loads(raw[8:8 + length]), raw[8 + length:]


def put(header, data, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def shifted(name_at, first=0, last=0, **changes):
    """A file in which one entry of the header is another."""
    def make(header, data):
        name = sorted((n for n in header if n != "__metadata__"),
                      key=lambda n: header[n]["data_offsets"])[name_at]
        begin, end = header[name]["data_offsets"]
        header[name] |= {"data_offsets": [begin + first, end + last]} | changes
        return put(header, data)
    return make


LIES = {  # a change of (header, data) -> a file, and what the error says
    "length beyond all bounds": (lambda h, d: put(h, d, 2 ** 62), "whose header fits"),
    "length beyond the file": (lambda h, d: put(h, d, 10 ** 7), "whose header fits"),
    "length 0": (lambda h, d: put(h, d, 0), "whose header fits"),
    "length too small": (lambda h, d: put(h, d, 100), "must be JSON"),
    "a page in HTML": (lambda h, d: b"<!doctype html><html>not found</html>", "whose header fits"),
    "7 bytes": (lambda h, d: b"1234567", "whose header fits|bytes 0-7 of its size"),
    "empty": (lambda h, d: b"", "whose header fits|bytes 0-7 of its size"),
    "no JSON": (lambda h, d: put(b"{" * 50, d), "must be JSON"),
    "deep JSON": (lambda h, d: put(b"[" * 10 ** 5, d), "must be JSON"),
    "not UTF-8": (lambda h, d: put(b"\xff\xfe" * 20, d), "must be JSON"),
    "a list": (lambda h, d: put(b"[1, 2]", d), "must be JSON"),
    "a name twice": (lambda h, d: put(b'{"a": 1, "a": 2}', d), "stands there twice"),
    "no offsets": (lambda h, d: put({"a": {"dtype": "F32", "shape": []}}, d), "data_offsets"),
    "an entry of text": (lambda h, d: put({"a": "F32"}, d), "must be JSON"),
    "cut": (lambda h, d: put(h, d[:-4]), "isn't whole"),
    "longer": (lambda h, d: put(h, d + b"1234"), "isn't whole"),
    "outside": (shifted(-1, 0, 4 * 10 ** 9), "must have .* bytes as F32"),
    "outside, with a shape to match": (shifted(-1, 0, 2 ** 20, dtype="X"), "isn't whole"),
    "overlap": (shifted(3, -4, -4), "without gap or overlap"),
    "gap": (shifted(3, 4, 4), "without gap or overlap"),
    "backwards": (shifted(-1, 0, -10 ** 4), "must have .* bytes|whole numbers"),
    "negative": (shifted(0, -8, -8), "whole numbers"),
    "a half": (shifted(0, 0.5, 0.5), "whole numbers"),
    "another shape": (shifted(3, shape=[7]), "must have 28 bytes"),
    "a negative shape": (shifted(3, shape=[-64, -32]), "whole numbers"),
    "another dtype": (shifted(3, dtype="F64"), "bytes as F64"),
}


@pytest.mark.parametrize("where", ["folder", "server"])
@pytest.mark.parametrize("lie", LIES)
def test_a_file_that_lies(tiny, tmp_path, serve, opened, lie, where):
    make, message = LIES[lie]
    (tmp_path / "model.safetensors").write_bytes(make(*parts(tiny)))
    address, log = (tmp_path, []) if where == "folder" else serve(tmp_path)
    with pytest.raises(ValueError, match=message) as raised:
        opened(address, config=tiny.config)
    assert "model.safetensors" in str(raised.value)
    assert len(log) <= 3, "the index, the length, and the header"


# ---------------------------------------------------------------- models that don't fit

def test_a_model_that_doesn_t_fit(tiny, tmp_path, opened):
    weights = load_file(tiny.folder / "model.safetensors")
    name = "layers.2.hc_ffn_base"
    for change, message in (
            ({name: None}, f"must have {name}, and 1 of the 18 tensors"),
            ({name: torch.zeros(23)}, rf"{name} .* shape \(24,\) by config.json, got \(23,\)"),
            ({name: torch.zeros(24, dtype=torch.int8)}, f"{name} .* got I8: it is quantised"),
            ({name: torch.full((24,), torch.nan)}, f"{name} .* must be finite"),
            ({"draft.layers.0.hc_attn_base": torch.zeros(24)}, "got 2 models in one"),
            (dict.fromkeys(n for n in weights if "hc_" in n), "got none in .* names such as")):
        kept = {n: w for n, w in (weights | change).items() if w is not None}
        save_file(kept, tmp_path / "model.safetensors")
        with pytest.raises(ValueError, match=message):
            opened(tmp_path, config=tiny.config)


@pytest.mark.parametrize("change, message", [
    ({"model_type": "llama"}, "model_type of config.json must be one of 'deepseek_v4'.*'llama'"),
    ({"model_type": None}, "model_type of config.json must be a string, got None"),
    ({"text_config": "x"}, "text_config of config.json must be an object, got 'x'"),
    ({"model_type": "inkling2"}, "got inkling2, which has attention residuals"),
    ({"hc_eps": None}, "hc_eps of config.json must be a finite number"),
    ({"hc_mult": 2}, r"shape \(8,\) by config.json"),
    ({"hc_mult": 0}, "hc_mult of config.json must be at least 2"),
    ({"hc_sinkhorn_iters": 0}, "hc_sinkhorn_iters of config.json must be at least 1"),
    ({"num_hidden_layers": 5}, "must have layers.4.hc_attn_base, and 4 of the 22"),
    ({"num_hidden_layers": "4"}, "must be a whole number"),
    (("model_type", "hc_mult", "hidden_size"),
     "num_hidden_layers, hc_eps, rms_norm_eps, hc_sinkhorn")])
def test_a_config_of_another_model(tiny, opened, change, message):
    config = tiny.config | change if isinstance(change, dict) else {
        key: tiny.config[key] for key in change}
    with pytest.raises(ValueError, match=message):
        opened(tiny.folder, config=config)


@pytest.mark.parametrize("index, error, message", [
    ("{", ValueError, "must be JSON"),
    ("[]", ValueError, "must be a JSON object"),
    ("{}", ValueError, "must have a weight_map"),
    ({"../model.safetensors"}, ValueError, "files beside it, got '../model.safetensors'"),
    ({"http://x/model.safetensors"}, ValueError, "files beside it"),
    ({7}, ValueError, "files beside it, got '7'"),
    ({"lost.safetensors"}, FileNotFoundError, "lost.safetensors"),
    ({"other.safetensors"}, ValueError, "other.safetensors must hold layers.0.hc_attn_")])
@pytest.mark.parametrize("where", ["folder", "server"])
def test_an_index_that_lies(tiny, tmp_path, serve, opened, index, error, message, where):
    if isinstance(index, set):
        names = load_file(tiny.folder / "model.safetensors")
        index = json.dumps({"weight_map": dict.fromkeys(names, *index)})
    (tmp_path / "model.safetensors.index.json").write_text(index)
    save_file({"a": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(error, match=message):
        opened(tmp_path if where == "folder" else serve(tmp_path)[0], config=tiny.config)


@pytest.mark.parametrize("address", ["/not/there", "./not/there", "nothing", "ftp://a/b", "a b"])
def test_an_address_that_names_nothing(opened, address):
    with pytest.raises(FileNotFoundError, match="address must be a folder or file"):
        opened(address)


def test_a_folder_without_a_config_or_a_model(tiny, tmp_path, opened):
    with pytest.raises(FileNotFoundError, match="config.json isn't there: give its content"):
        opened(tmp_path)
    with pytest.raises(FileNotFoundError, match="model.safetensors must be there, or"):
        opened(tmp_path, config=tiny.config)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), "3"])
def test_a_timeout_is_a_positive_number(tiny, opened, timeout):
    with pytest.raises(ValueError, match="timeout must be"):
        opened(tiny.folder, timeout=timeout)


def test_without_a_library_the_extra_is_named(tiny, opened, monkeypatch):
    extras = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())
    needed = " ".join(extras["project"]["optional-dependencies"]["checkpoints"])
    for library, address in (("safetensors", tiny.folder), ("huggingface-hub", "a/b")):
        monkeypatch.setitem(sys.modules, library.replace("-", "_"), None)
        with pytest.raises(ImportError, match=r'pip install "geolab\[checkpoints\]"'):
            opened(address)
        assert f"{library}>=" in needed
