"""What can't be read is refused by name, before more is read."""

import json
import struct
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from geolab.checkpoints import maps_at, maps_of, of_model
from geolab.checkpoints.names import settings_of

SERVERS = {
    "no ranges": (ValueError, "status 206, got 200 and all of its .* Download the file"),
    "another range": (ValueError, "must answer with bytes 8-"),
    "less": (ConnectionError, "must have 8 bytes from 0 on, and 7 came"),
    "more": (ValueError, "at most 8 bytes, got 108"),
    "more than it says": (ValueError, "at most 8 bytes, and more came"),
    "zipped": (ValueError, "as it is, got the encoding gzip"),
    "changes": (ConnectionError, "changed while it was read"),
    "gone": (FileNotFoundError, "must be there, or model.safetensors.index.json beside it"),
    "gated": (PermissionError, "status 401.*hf auth login"),
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


# ---------------------------------------------------------------- files that lie

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
    "length beyond the file": (lambda h, d: put(h, d, 10 ** 7), "whose header fits"),
    "length 0": (lambda h, d: put(h, d, 0), "whose header fits"),
    "7 bytes": (lambda h, d: b"1234567", "whose header fits|bytes 0-7 of its size"),
    "no JSON": (lambda h, d: put(b"{" * 50, d), "must be JSON"),
    "deep JSON": (lambda h, d: put(b"[" * 10 ** 5, d), "must be JSON"),
    "a list": (lambda h, d: put(b"[1, 2]", d), "must be JSON"),
    "a name twice": (lambda h, d: put(b'{"a": 1, "a": 2}', d), "stands there twice"),
    "no offsets": (lambda h, d: put({"a": {"dtype": "F32", "shape": []}}, d), "data_offsets"),
    "cut": (lambda h, d: put(h, d[:-4]), "isn't whole"),
    "outside, with a shape to match": (shifted(-1, 0, 2 ** 20, dtype="X"), "isn't whole"),
    "overlap": (shifted(3, -4, -4), "without gap or overlap"),
    "negative": (shifted(0, -8, -8), "whole numbers"),
    "a half": (shifted(0, 0.5, 0.5), "whole numbers"),
    "another dtype": (shifted(3, dtype="F64"), "bytes as F64"),
}


@pytest.mark.parametrize("where", ["folder", "server"])
@pytest.mark.parametrize("lie", LIES)
def test_a_file_that_lies(tiny, tmp_path, serve, opened, lie, where):
    make, message = LIES[lie]
    raw = (tiny.folder / "model.safetensors").read_bytes()
    start = 8 + struct.unpack("<Q", raw[:8])[0]
    (tmp_path / "model.safetensors").write_bytes(make(json.loads(raw[8:start]), raw[start:]))
    address, log = (tmp_path, []) if where == "folder" else serve(tmp_path)
    with pytest.raises(ValueError, match=message) as raised:
        opened(address, config=tiny.config)
    assert "model.safetensors" in str(raised.value)
    assert len(log) <= 3, "the index, the length, and the header"


@pytest.mark.parametrize("index, error, message", [
    ("{", ValueError, "must be JSON"), ("[]", ValueError, "must be a JSON object"),
    ("{}", ValueError, "must have a weight_map"),
    ({"../model.safetensors"}, ValueError, "files beside it, got '../model.safetensors'"),
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


# ---------------------------------------------------------------- models that don't fit

BASE = "layers.2.hc_ffn_base"


@pytest.mark.parametrize("change, message", [
    ({BASE: None}, f"must have {BASE}, and 1 of the 18 tensors"),
    ({BASE: torch.zeros(23)}, rf"{BASE} .* shape \(24,\) by config.json, got \(23,\)"),
    ({BASE: torch.zeros(24, dtype=torch.int8)}, f"{BASE} .* got I8: it is quantised"),
    ({BASE: torch.full((24,), torch.nan)}, f"{BASE} .* must be finite"),
    ({"draft.layers.0.hc_attn_base": torch.zeros(24)}, "got 2 models in one"),
    (None, "got none in .* names such as")])
def test_a_model_that_doesn_t_fit(tiny, tmp_path, opened, change, message):
    weights = load_file(tiny.folder / "model.safetensors")
    change = change or dict.fromkeys(name for name in weights if "hc_" in name)
    kept = {n: w for n, w in (weights | change).items() if w is not None}
    save_file(kept, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=message):
        opened(tmp_path, config=tiny.config)


@pytest.mark.parametrize("change, message", [
    ({"model_type": "llama"}, "model_type of config.json must be one of 'deepseek_v4'.*'llama'"),
    ({"model_type": None}, "model_type of config.json must be a string, got None"),
    ({"model_type": "inkling2"}, "got inkling2, which has attention residuals"),
    ({"hc_mult": 2}, r"shape \(8,\) by config.json"),
    ({"hc_mult": 1}, "hc_mult of config.json must be at least 2"),
    ({"num_hidden_layers": 10**12}, "num_hidden_layers of config.json must be that of the model"),
    ({"num_hidden_layers": 5}, "must have layers.4.hc_attn_base, and 4 of the 22"),
    *(({key: None}, f"^{key} of config.json must be a (whole|finite) num") for key in (
        "num_hidden_layers", "hidden_size", "hc_mult", "hc_eps", "rms_norm_eps",
        "hc_sinkhorn_iters")),
    (("model_type", "hc_mult", "hidden_size"),
     "num_hidden_layers, hc_eps, rms_norm_eps, hc_sinkhorn")])
def test_a_config_of_another_model(tiny, opened, change, message):
    config = tiny.config | change if isinstance(change, dict) else {
        key: tiny.config[key] for key in change}
    with pytest.raises(ValueError, match=message):
        opened(tiny.folder, config=config)


def test_what_can_t_be_asked_for_is_refused(tiny, opened, tmp_path):
    stored, full = opened(tiny.folder), of_model(tiny.model)
    lazy = type("Lazy", (type(tiny.model),), {"forward": lambda self, x: x})(tiny.model.config)
    hy = {"model_type": "hy_v4", "hc_magnitude": None}
    for error, call, message in (
            (ValueError, lambda: maps_at(stored, "mlp 0", torch.randn(4, 32)),
             r"fn of mlp 0 must have been read: survey\(…, fn=True"),
            (ValueError, lambda: maps_at(full, "mlp 0", torch.randn(4, 31)),
             r"states must be \(..., 4, 32\), got shape \(4, 31\)"),
            (ValueError, lambda: maps_at(full, "mlp 9", torch.randn(4, 32)),
             "site must be one of attention 0, .* got 'mlp 9'"),
            (ValueError, lambda: maps_at(full, "head", torch.randn(4, 32)),
             "readout gives the weights of the head"),
            (ValueError, lambda: maps_of(lazy, torch.zeros(1)),
             "must call the residual of each sublayer once"),
            (ValueError, lambda: settings_of(tiny.config | hy), "^hc_magnitude of config.json"),
            (ValueError, lambda: opened(tiny.folder, timeout=0), "timeout must be positive"),
            (ConnectionError, lambda: opened("http://127.0.0.1:9/", timeout=2), "can't be reached"),
            (FileNotFoundError, lambda: opened(tmp_path), "config.json isn't there: give its"),
            (FileNotFoundError, lambda: opened(tmp_path, config=tiny.config),
             "model.safetensors must be there, or"),
            *((FileNotFoundError, lambda address=address: opened(address),
               "address must be a folder or file") for address in (
                   "/not/there", "./not/there", "nothing", "ftp://a/b", "a b"))):
        with pytest.raises(error, match=message):
            call()


def test_without_a_library_the_extra_is_named(tiny, opened, monkeypatch):
    for library, address in (("safetensors", tiny.folder), ("huggingface_hub", "a/b")):
        monkeypatch.setitem(sys.modules, library, None)
        with pytest.raises(ImportError, match=r'pip install "geolab\[checkpoints\]"'):
            opened(address)
