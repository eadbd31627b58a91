"""A grafted network as a file: its weights, and how it was grafted.

    save(model, "mine.pt")
    model = load(plain_model(), "mine.pt")     # a plain network of the same class and sizes
"""

from pathlib import Path
from typing import Any

from torch import nn

from geolab.files import read_tensors, write_tensors
from geolab.graft.block import Grafted
from geolab.graft.network import graft, ungraft
from geolab.residuals import REGISTRY


def save(model: nn.Module, path: str | Path) -> None:
    """Write the weights of a grafted network and the call that grafted it.

    An earlier file is replaced as a whole, or not at all.

    Raises: ValueError for a model that isn't grafted, or one with a residual that has no name in
        the registry.
    """
    how = vars(model).get("grafted_with")
    if how is None or not any(isinstance(module, Grafted) for module in model.modules()):
        raise ValueError(f"model must be what graft returned, got {type(model).__name__}")
    names = {cls: name for name, cls in REGISTRY.items()}
    residual = names.get(how["residual"], how["residual"])
    if not isinstance(residual, str):
        raise ValueError(f"residual must be one of geolab.residuals.REGISTRY, which a file names, "
                         f"got {residual.__name__}: keep model.state_dict(), and graft as before")
    how = how | {"residual": residual}
    write_tensors({"grafted_with": how, "weights": model.state_dict()}, path)


def load(model: nn.Module, path: str | Path, map_location: Any = None) -> nn.Module:
    """Graft a plain network as the file says, and load the file's weights into it.

    Arguments:
        model: a plain network of the same class and sizes as the one that was saved.
        map_location: as for torch.load.
    Returns: the model.
    Raises: ValueError for a damaged file, one that `save` didn't write, and as `graft` does;
        RuntimeError for weights of another network. The model then stays plain.
    """
    found = read_tensors(path, map_location=map_location)
    if not isinstance(found, dict) or set(found) != {"grafted_with", "weights"}:
        raise ValueError(f"{path} must be a file that geolab.graft.save wrote")
    how = found["grafted_with"]
    graft(model, how["residual"], plain=False, dtype=how["dtype"], only=how["only"],
          **how["options"])
    try:
        model.load_state_dict(found["weights"])
    except RuntimeError:
        ungraft(model)
        raise
    return model
