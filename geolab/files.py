"""Files that are whole or not there, and files of tensors that say what is wrong with them."""

import os
import pickle
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

# what torch.load raises for a file that is cut off, empty, or of another kind
DAMAGED = (RuntimeError, EOFError, LookupError, OSError, ValueError, TypeError, AttributeError,
           pickle.UnpicklingError)


@contextmanager
def whole(path: str | Path) -> Iterator[Path]:
    """Yield a path to write to, which takes the place of `path` at the end.

    After an error or an interruption, an earlier file is as it was. Where the machine stops, a file
    with the ending ".partial" may be left. Of several writers at once the last one wins.
    """
    path = Path(path)
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def write_tensors(content: dict[str, Any], path: str | Path) -> None:
    """Write tensors and plain values, whole or not at all. Numbers of numpy become Python's, since
    `read_tensors` runs no code that would make them.
    """
    with whole(path) as partial:
        torch.save(_plain(content), partial)


def _plain(value: Any) -> Any:
    """The value without numbers of numpy. A state_dict stays what it is."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) is dict:
        return {key: _plain(entry) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    return value


def read_tensors(file: str | Path | BinaryIO, **options: Any) -> Any:
    """Read a file that torch.save wrote, and run no code of it.

    Arguments:
        options: for torch.load.
    Raises: FileNotFoundError, IsADirectoryError or PermissionError for a path that can't be read;
        ValueError, with the path, for a file that is damaged or of another kind.
    """
    try:
        return torch.load(file, weights_only=True, **options)
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except DAMAGED as error:
        raise ValueError(f"{file} must be a whole file that torch.save wrote, of tensors and plain "
                         f"values, got {type(error).__name__}: {error}") from error
