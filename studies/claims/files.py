"""Claims are YAML files, so that readers of a paper can edit them without Python.

schema.json describes their form. A file of rows is a list of groups. A row takes from its group the
fields that it doesn't set itself:

    - chapter: 07_delta_transformer
      rows:
      - label: ddl-guard
        statement: ...
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import yaml

HERE = Path(__file__).parent
Entry = TypeVar("Entry")


def read(name: str) -> list | dict:
    """Read a file of this folder, such as "theorems/delta".

    Raises: ValueError for a file that isn't YAML.
    """
    path = HERE / f"{name}.yml"
    try:
        return yaml.load(path.read_text(encoding="utf-8"),
                         getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as problem:
        raise ValueError(f"{path} must be YAML: {problem}") from problem


def entries(folder: str, names: Iterable[str], make: Callable[..., Entry]) -> Iterator[Entry]:
    """Return make(**row) for every row of these files.

    Raises: ValueError for a row that `make` refuses, with the file and the row's label.
    """
    for name in names:
        for group in read(f"{folder}/{name}"):
            shared = {key: value for key, value in group.items() if key != "rows"}
            for row in group["rows"]:
                try:
                    yield make(**shared | row)
                except (TypeError, ValueError) as problem:
                    raise ValueError(f"studies/claims/{folder}/{name}.yml, row "
                                     f"{row.get('label')!r}: {problem}") from problem
