"""The stored notebooks, as the tests of their form read them."""

import json
import re
from pathlib import Path

import pytest
from geolab_plain import myst

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted(ROOT.glob("notebooks/*.ipynb"))
NOTEBOOKS = [*CHAPTERS, *sorted(ROOT.glob("book/*.ipynb"))]
MARK = re.compile(r"^[:`]{3,}\{(exercise|solution-start|solution-end)\} *(.*)\n(?::label: *(\S+))?",
                  re.M)


class Notebook:
    """A notebook; each cell's source is one string, and text is MyST, as the page reads it."""

    def __init__(self, path: Path):
        self.json = json.loads(path.read_text())
        stored = [{**cell, "source": "".join(cell["source"])} for cell in self.json["cells"]]
        self.cells = [{**cell, "source": myst(cell["source"])} if cell["cell_type"] == "markdown"
                      else cell for cell in stored]
        self.code = [cell for cell in self.cells if cell["cell_type"] == "code"]
        self.text, self.plain = (
            "\n\n".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")
            for cells in (self.cells, stored))

    def exercises(self) -> list[tuple[str, str, int]]:
        """(kind, label, number of code cells before it) in the order of the notebook.

        The kinds are exercise, solution-start and solution-end.
        """
        found, code = [], 0
        for cell in self.cells:
            if cell["cell_type"] == "code":
                code += 1
            else:
                found += [(kind, label or title.strip(), code)
                          for kind, title, label in MARK.findall(cell["source"] + "\n")]
        return found

    def in_solutions(self) -> list[dict]:
        """The code cells between a solution's start and its end."""
        ends = [code for kind, _, code in self.exercises() if kind != "exercise"]
        return [cell for start, end in zip(ends[::2], ends[1::2]) for cell in self.code[start:end]]


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request) -> Notebook:
    return Notebook(request.param)


@pytest.fixture(params=CHAPTERS, ids=lambda path: path.stem)
def chapter(request) -> Notebook:
    return Notebook(request.param)
