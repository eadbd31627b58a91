"""The table of released models, with what the installed transformers and the comparison say of it.
"""

from typing import Any

from studies.claims.released import RELEASED as MODELS
from studies.claims.released import Released, table
from studies.parity import RELEASED
from studies.parity.installed import library


def configuration(row: Released) -> Any:
    """The default configuration of a row's model in the installed library."""
    name = row.module.rpartition(".")[2]
    return getattr(library(f"{row.module}.configuration_{name}"), row.configuration)()


def sizes() -> dict[str, tuple[int, int]]:
    """Return D and the number of layers of each model of the installed library, by label."""
    found = {row.label: (row, configuration(row)) for row in MODELS if row.module}
    return {label: (getattr(config, row.width), getattr(config, row.layers))
            for label, (row, config) in found.items()}


def models() -> str:
    """Return the table of a page, as HTML."""
    return table(sizes(), {row.label for row in RELEASED})
