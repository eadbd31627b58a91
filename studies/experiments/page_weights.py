"""A trained network as a file that a page loads: 8 bits for each weight of a matrix.

    a row w of a matrix  →  s = max |w| / 127,  q = round(w / s)        read as s q, in float32

A file calls `geolabNetwork.take(residual, provenance, text)`, because a page that is opened from
the disk may load scripts and no other files. The text is JSON; the stored result has its SHA-256.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor

from geolab.models import TokenModel, TransformerConfig
from geolab.residuals import REGISTRY
from studies.engine.arm import trained
from studies.engine.results import read
from studies.engine.run import Study
from studies.experiments.page_model import LINE, Pieces, build, tokenizer

BEGINNINGS = ("And the LORD said unto", "In the beginning God created", "My computer is")


def quantised(weight: Tensor) -> tuple[Tensor, Tensor]:
    """The whole numbers of a matrix, int8, and a scale for each row: (n, m) -> (n, m), (n,)."""
    largest = weight.abs().amax(1)
    scale = torch.where(largest > 0, largest / 127, 1.0)
    return (weight / scale[:, None]).round().to(torch.int8), scale


def as_text(model: TokenModel, pieces: Tokenizer) -> str:
    """The JSON of a network and of its pieces, in ASCII.

    "numbers" has, in base64, the scales of each matrix's rows and all vectors, float32, in order of
    the tensors, and after them the matrices, int8.
    """
    config, first = model.trunk.config, model.trunk.layers[0].residual
    floats, whole, tensors = [], [], []
    for name, tensor in model.state_dict().items():
        tensors.append([name, list(tensor.shape)])
        if tensor.ndim == 2:
            tensor, scale = quantised(tensor)
            whole.append(tensor.numpy().tobytes())
            floats.append(scale.numpy().astype("<f4").tobytes())
        else:
            floats.append(tensor.numpy().astype("<f4").tobytes())
    return json.dumps({
        "residual": residual_of(model), "options": first.options, "width": config.width,
        "layers": config.layers, "heads": config.heads, "hidden": config.hidden,
        "context": config.max_length, "streams": getattr(first, "streams", 1), **spelt(pieces),
        "tensors": tensors, "numbers": base64.b64encode(b"".join(floats + whole)).decode()},
        separators=(",", ":"))


def spelt(pieces: Tokenizer) -> dict[str, list]:
    """The pieces, each byte as the character of its number, and the merges [left, right, both]."""
    number = pieces.get_vocab()
    plain = {character: chr(byte) for byte, character in enumerate(_characters())}
    merges = [pair if isinstance(pair, list) else pair.split(" ")
              for pair in json.loads(pieces.to_str())["model"]["merges"]]
    return {"pieces": ["".join(plain[character] for character in piece)
                       for piece in sorted(number, key=number.__getitem__)],
            "merges": [[number[a], number[b], number[a + b]] for a, b in merges]}


def _characters() -> list[str]:
    """The character that byte-level encoding shows for each byte: its own where it can be seen."""
    seen = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in seen]
    return [chr(byte) if byte in seen else chr(256 + hidden.index(byte)) for byte in range(256)]


def read_text(text: str) -> TokenModel:
    """The network of `as_text`, with the weights that the page reads."""
    told = json.loads(text)
    config = TransformerConfig.ddl(told["width"], told["layers"], told["heads"],
                                   hidden=told["hidden"], max_length=told["context"])
    model = build(config, len(told["pieces"]), told["residual"], told["options"])
    numbers, at = base64.b64decode(told["numbers"]), 0
    shapes = {name: tuple(shape) for name, shape in told["tensors"]}
    floats: dict[str, Tensor] = {}
    for name, shape in shapes.items():
        vector = np.frombuffer(numbers, "<f4", shape[0], at)
        floats[name], at = torch.from_numpy(vector.astype(np.float32)), at + 4 * shape[0]
    for name, shape in shapes.items():
        if len(shape) == 2:
            whole = np.frombuffer(numbers, np.int8, shape[0] * shape[1], at).reshape(shape)
            at += whole.size
            floats[name] = floats[name][:, None] * torch.from_numpy(whole.astype(np.float32))
    model.load_state_dict(floats)
    return model.eval()


def residual_of(model: TokenModel) -> str:
    """The registered name of a network's residual."""
    kind = type(model.trunk.layers[0].residual)
    return next(name for name, residual in REGISTRY.items() if residual is kind)


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@torch.no_grad()
def measure(task: Pieces, model: TokenModel) -> dict:
    """What the page says of a network: its loss at 8 bits, its file, and its first words."""
    text = as_text(model, tokenizer(task))
    page, (inputs, targets) = read_text(text), task.sample("validation")
    loss = sum(task.loss(page(some), wanted).item() * len(some)
               for some, wanted in zip(inputs.split(64), targets.split(64), strict=True))
    return {"loss at 8 bits": round(loss / len(inputs), 5), "bytes": len(text),
            "sha256": sha256(text), "speaks": {begin: speaks(page, tokenizer(task), begin)
                                               for begin in BEGINNINGS}}


@torch.no_grad()
def speaks(model: TokenModel, pieces: Tokenizer, begin: str, length: int = 20) -> dict:
    """The five likeliest next pieces, and how the network goes on if it always takes the first."""
    ids = pieces.encode(LINE + begin).ids
    chances = model(torch.tensor([ids]))[0, -1].softmax(-1).topk(5)
    written: list[int] = []
    for _ in range(length):
        written.append(int(model(torch.tensor([ids + written]))[0, -1].argmax()))
    return {"next": [[pieces.decode([int(piece)]), round(chance, 4)] for chance, piece in
                     zip(chances.values.tolist(), chances.indices, strict=True)],
            "goes on": pieces.decode(written).partition(LINE)[0]}


def script(text: str, provenance: Mapping[str, object]) -> str:
    """The content of the file of a network's text."""
    told = json.dumps(dict(provenance), separators=(",", ":"))
    return f'geolabNetwork.take("{json.loads(text)["residual"]}",{told},{json.dumps(text)});\n'


def write(study: Study, result: Path, folder: Path, out: Path) -> list[Path]:
    """Write the file of each network of a stored result, from its checkpoint.

    Arguments:
        folder: of the checkpoints, as `run_study` has it.
        out: the folder of the files.
    Raises: FileNotFoundError without a checkpoint; ValueError for one that isn't the one that the
        result measured.
    """
    found, arms = read(result), {arm.name: arm for arm in study.arms()}
    texts = {}
    for run in found["runs"]:
        arm, steps = arms[run["model"]], found["budget"]["steps"]
        checkpoint = (folder / f"{study.name}.cpu.{found['device']}" / arm.part / arm.name /
                      f"{run['seed']}-{run['lr']:g}-{round(run['warmup'] * steps)}-{steps}.pt")
        text = as_text(trained(arm, run["seed"], checkpoint), tokenizer(arm.task))
        if sha256(text) != run["measured"]["sha256"]:
            raise ValueError(f"{checkpoint} gives weights with SHA-256 {sha256(text)}, and {result}"
                             f" measured {run['measured']['sha256']}: run the study to its end, or "
                             "give the --folder of its checkpoints")
        texts[arm.name] = text
    out.mkdir(parents=True, exist_ok=True)
    told = {"study": study.name, "commit": found["commit"], "result": found["sha256"]}
    for name, text in texts.items():
        (out / f"network_{name}.js").write_text(script(text, told))
    return [out / f"network_{name}.js" for name in texts]
