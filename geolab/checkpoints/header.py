"""The header of a safetensors file: which bytes are which tensor.

    file   = 8 bytes N (little endian), N bytes of JSON, the data
    JSON   = {name: {"dtype": "F32", "shape": [24, 128], "data_offsets": [begin, end]}, …}

The tensors fill the data without gap or overlap, by the format's specification. A header that says
otherwise lies, or belongs to a file that isn't whole.
"""

import json
from math import prod
from typing import Any, NamedTuple

import torch

LONGEST = 100_000_000  # bytes of a header, the format's own bound
DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
BITS = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I8": 8,
        "U8": 8, "BOOL": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32,
        "F32": 32, "I64": 64, "U64": 64, "F64": 64, "C64": 64}


class Stored(NamedTuple):
    """A tensor that lies in a file."""

    file: str     # its path or URL
    dtype: str
    shape: tuple[int, ...]
    begin: int    # of its bytes in the file
    end: int

    @property
    def bytes(self) -> int:
        return self.end - self.begin


def header_length(first: bytes, size: int, file: str) -> int:
    """N, of the first 8 bytes of a file of `size` bytes. Raises: ValueError for a lie."""
    length = int.from_bytes(first[:8], "little")
    if len(first) < 8 or not 2 <= length <= min(size - 8, LONGEST):
        raise ValueError(f"{file} must be a safetensors file, whose header fits it: got a header "
                         f"of {length} bytes in a file of {size}. What does it begin with? "
                         f"{first[:8]!r}")
    return length


def parse_header(text: bytes, size: int, file: str) -> dict[str, Stored]:
    """The tensors of a file by name.

    Arguments:
        text: the header's bytes, without the first 8.
        size: of the whole file in bytes.
        file: its path or URL.
    Raises: ValueError for a header that no whole file can have.
    """
    try:
        entries = json.loads(text, object_pairs_hook=_no_name_twice)
        if not isinstance(entries, dict):
            raise ValueError("it isn't an object")
        entries.pop("__metadata__", None)
        start = 8 + len(text)
        found = {name: _stored(entry, file, start) for name, entry in entries.items()}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"the header of {file} must be JSON as safetensors has it, got "
                         f"{text[:60]!r}… ({error})") from error
    end, before = start, "the header"
    for name, one in sorted(found.items(), key=lambda item: item[1][3:]):
        if one.begin != end:
            raise ValueError(f"the tensors of {file} must fill it without gap or overlap: {name} "
                             f"begins at byte {one.begin}, and {before} ends at {end}")
        expected = prod(one.shape) * BITS[one.dtype] / 8 if one.dtype in BITS else one.bytes
        if one.bytes != expected or one.bytes < 0:
            raise ValueError(f"{name} of {file} must have {expected:.0f} bytes as {one.dtype} of "
                             f"shape {one.shape}, got {one.bytes}")
        end, before = one.end, name
    if end != size:
        raise ValueError(f"{file} must end where its last tensor does, at byte {end}, and has "
                         f"{size} bytes: it isn't whole")
    return found


def _stored(entry: dict, file: str, start: int) -> Stored:
    begin, end = entry["data_offsets"]
    numbers = [begin, end, *entry["shape"]]
    if any(type(number) is not int or number < 0 for number in numbers):
        raise ValueError(f"offsets and shapes are whole numbers, got {numbers}")
    return Stored(file, str(entry["dtype"]), tuple(entry["shape"]), start + begin, start + end)


def _no_name_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands there twice")
    return found
