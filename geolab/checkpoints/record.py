"""A checkpoint's static maps in numbers, and these as a file with their provenance."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from geolab.checkpoints.maps import static_maps
from geolab.checkpoints.survey import Checkpoint
from geolab.files import whole
from geolab.probes import composite_gain, stream_consensus


def numbers(checkpoint: Checkpoint) -> dict[str, dict[str, Any]]:
    """{sublayer: its numbers} of the static maps, in the order of depth.

    They are "gain" and "gain of gradients" of the composite from this sublayer to the last,
    "consensus" from the first one to this, "distance to identity" ‖H − I‖_F, and a and b as
    "read" and "write".
    """
    read, write, mix = static_maps(checkpoint)
    gain, identity = composite_gain(mix), torch.eye(mix.shape[-1]).to(mix)
    columns = {"gain": gain.forward, "gain of gradients": gain.backward,
               "consensus": stream_consensus(mix),
               "distance to identity": (mix - identity).norm(dim=(-2, -1)),
               "read": read, "write": write}
    return {site: {name: column[k].tolist() for name, column in columns.items()}
            for k, site in enumerate(checkpoint.sublayers)}


def record(checkpoint: Checkpoint) -> dict[str, Any]:
    """The numbers of a checkpoint with their provenance, for JSON.

    A tensor's hash is the SHA-256 of its numbers, little endian, as they lie in the file.
    """
    tensors = {name: {"dtype": str(tensor.dtype).removeprefix("torch."),
                      "shape": list(tensor.shape), "sha256": _hash(tensor)}
               for name, tensor in checkpoint.tensors.items()}
    return {"address": checkpoint.address, "revision": checkpoint.revision,
            "names": checkpoint.whose, "settings": checkpoint.settings._asdict(),
            "bytes": checkpoint.bytes, "tensors": tensors, "numbers": numbers(checkpoint)}


def store(checkpoint: Checkpoint, path: str | Path, replace: bool = False) -> None:
    """Write `record(checkpoint)` as JSON, whole or not at all.

    Raises: FileExistsError for a file that is there, unless `replace` is True.
    """
    path = Path(path)
    if path.exists() and not replace:
        raise FileExistsError(f"{path} is there already: give another path, or replace=True")
    text = json.dumps(record(checkpoint), indent=1, allow_nan=False) + "\n"
    with whole(path) as partial:
        partial.write_text(text)


def _hash(tensor: Tensor) -> str:
    own = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.sha256(own.numpy().tobytes()).hexdigest()
