"""A tiny DeepSeek-V4 in a folder, and servers of every kind for it."""

import json
import re
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from geolab.checkpoints import read, survey

SIZES = dict(vocab_size=64, hidden_size=32, moe_intermediate_size=16, num_hidden_layers=4,
             num_attention_heads=2, head_dim=16, q_lora_rank=16, n_routed_experts=4,
             num_experts_per_tok=2, o_groups=2, o_lora_rank=8, index_n_heads=2, index_head_dim=16,
             index_topk=4, sliding_window=8, pad_token_id=0, max_position_embeddings=64)


@pytest.fixture(scope="session")
def tiny(transformers, tmp_path_factory):
    """A model of random weights, and its folder: one file, with DeepSeek's names."""
    torch.manual_seed(0)
    config = transformers.DeepseekV4Config(**SIZES)
    model = transformers.DeepseekV4ForCausalLM(config).eval().requires_grad_(False)
    for name, weight in model.named_parameters():
        if "hc" in name:
            weight.normal_(std=0.3)
    folder = tmp_path_factory.mktemp("tiny")
    save_file({published(name): weight for name, weight in model.state_dict().items()},
              folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config.to_dict(), default=str))
    return SimpleNamespace(model=model, folder=folder, config=config.to_dict())


@pytest.fixture(scope="session")
def opened():
    """`opened(address, **options of survey)`: the checkpoint that lies there."""
    def quiet(line):
        pass

    return lambda address, **options: read(survey(address, tell=quiet, **options), tell=quiet)


def published(name: str) -> str:
    """DeepSeek's own name of a weight of transformers, as far as the residual's go."""
    name = re.sub(r"^model\.", "", name)
    name = re.sub(r"^hc_head\.hc_", "hc_head_", name)
    return re.sub(r"\.(attn|ffn)_hc\.", r".hc_\1_", name)


class Server(BaseHTTPRequestHandler):
    """A folder by HTTP; `how` says what is wrong with the answers for safetensors files."""

    protocol_version = "HTTP/1.1"
    folder: Path
    how: str
    log: list

    def do_GET(self):
        name = self.path.split("?")[0].lstrip("/")
        self.log.append((name, self.headers.get("Range"), self.headers.get("Authorization")))
        how = self.how if name.endswith(".safetensors") else "ranges"
        if how == "redirect" and "moved" not in self.path:
            return self.head(302, {"Location": self.path + "?moved", "Content-Length": "0"})
        if how in STATUS or not (self.folder / name).is_file():
            return self.head(STATUS.get(how, 404), {"Content-Length": "0"})
        return self.file(name, how)

    def file(self, name, how):
        body, headers, status = (self.folder / name).read_bytes(), {"ETag": '"1"'}, 200
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range") or "")
        if asked and how != "no ranges":
            first, last = int(asked[1]), min(int(asked[2]), len(body) - 1)
            if how == "another range" and first > 0:
                first, last = first - 1, last - 1
            headers["Content-Range"] = f"bytes {first}-{last}/{len(body)}"
            body, status = body[first:last + 1], 206
        if how == "changes":
            headers["ETag"] = f'"{len(self.log)}"'
        if how == "zipped":
            headers["Content-Encoding"] = "gzip"
        if how == "less":
            body = body[:-1]
        if how in ("more", "more than it says"):
            body += bytes(100)
        if how == "more than it says":
            headers["Connection"] = "close"
        else:
            headers["Content-Length"] = str(len(body))
        if how == "silent":
            time.sleep(0.6)
        self.head(status, headers)
        slow = min(len(body), 40) if how == "a byte at a time" else 0
        for k in range(slow):
            self.wfile.write(body[k:k + 1])
            time.sleep(0.02)
        self.wfile.write(body[slow:])
        self.close_connection = True

    def head(self, status, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def handle(self):
        with suppress(BrokenPipeError, ConnectionResetError):  # the reader leaves, as it should
            super().handle()

    def log_message(self, *arguments):
        pass


STATUS = {"gone": 404, "gated": 401, "overloaded": 503}


@contextmanager
def serving(folder, how):
    log: list = []
    handler = type("Handler", (Server,), {"folder": folder, "how": how, "log": log})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", log
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def serve(monkeypatch):
    """`serve(folder, how="ranges")`: the URL of a folder, and the log of its requests."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ExitStack() as stack:
        yield lambda folder, how="ranges": stack.enter_context(serving(folder, how))
