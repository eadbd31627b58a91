"""Public models beside ours: the same function, to rounding.

    python -m studies.papers.parity      # the table
"""

from studies.papers.parity import ddl, emhc, lecture
from studies.papers.parity.public import Agreement, Public, agreement

PUBLIC: list[Public] = [*emhc.PUBLIC, *lecture.PUBLIC, *ddl.PUBLIC]

__all__ = ["PUBLIC", "Agreement", "Public", "agreement"]
