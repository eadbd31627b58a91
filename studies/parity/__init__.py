"""Public models beside ours: the same function, to rounding.

    python -m studies.parity      # the table
"""

from studies.parity import ddl, emhc, lecture
from studies.parity.public import Agreement, Public, agreement

PUBLIC: list[Public] = [*emhc.PUBLIC, *lecture.PUBLIC, *ddl.PUBLIC]

__all__ = ["PUBLIC", "Agreement", "Public", "agreement"]
