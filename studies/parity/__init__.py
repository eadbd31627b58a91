"""Public models beside ours: the same function, to rounding.

    python -m studies.parity      # the table
"""

from studies.parity import ddl, emhc, lecture, released_depth, released_single, released_streams
from studies.parity.installed import Installed, installed_agreement
from studies.parity.public import Agreement, Public, agreement

PUBLIC: list[Public] = [*emhc.PUBLIC, *lecture.PUBLIC, *ddl.PUBLIC]
# of the installed transformers: a module of rows is a line here
RELEASED: list[Installed] = [
    *released_streams.ROWS,
    *released_depth.ROWS,
    *released_single.ROWS,
]

__all__ = ["PUBLIC", "RELEASED", "Agreement", "Installed", "Public", "agreement",
           "installed_agreement"]
