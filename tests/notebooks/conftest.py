"""The stored notebooks, as the tests of their form read them."""

import ast
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from geolab_plain import myst

ROOT = Path(__file__).resolve().parents[2]
CHAPTERS = sorted(ROOT.glob("notebooks/*.ipynb"))
NOTEBOOKS = [*CHAPTERS, *sorted(ROOT.glob("book/*.ipynb"))]


@dataclass
class Notebook:
    """A notebook; each cell's source is one string, and text is MyST, as the page reads it."""

    path: Path

    def __post_init__(self):
        self.json = json.loads(self.path.read_text())
        stored = [{**cell, "source": "".join(cell["source"])} for cell in self.json["cells"]]
        self.cells = [{**cell, "source": myst(cell["source"])} if cell["cell_type"] == "markdown"
                      else cell for cell in stored]
        self.plain = "\n\n".join(cell["source"] for cell in stored
                                 if cell["cell_type"] == "markdown")

    @property
    def code(self) -> list[dict]:
        return [cell for cell in self.cells if cell["cell_type"] == "code"]

    @property
    def text(self) -> str:
        return "\n\n".join(cell["source"] for cell in self.cells if cell["cell_type"] == "markdown")

    def exercises(self) -> list[tuple[str, str, int]]:
        """(kind, label, number of code cells before it) in the order of the notebook.

        The kinds are exercise, solution-start and solution-end.
        """
        kinds = "exercise|solution-start|solution-end"
        mark = re.compile(rf"^[:`]{{3,}}\{{({kinds})\}} *(.*)\n((?::.*\n)*)", re.M)
        found, code = [], 0
        for cell in self.cells:
            if cell["cell_type"] == "code":
                code += 1
                continue
            for kind, title, options in mark.findall(cell["source"] + "\n"):
                label = re.search(r"^:label: *(\S+)", options, re.M) if kind == "exercise" else None
                found.append((kind, label[1] if label else title.strip(), code))
        return found

    def in_solutions(self) -> list[dict]:
        """The code cells between a solution's start and its end."""
        ends = [code for kind, _, code in self.exercises() if kind != "exercise"]
        return [cell for start, end in zip(ends[::2], ends[1::2]) for cell in self.code[start:end]]


def last_call(source: str) -> str | None:
    """The name of the function that a cell's last line calls."""
    last = (ast.parse(source).body or [None])[-1]
    call = last.value if isinstance(last, ast.Expr) else None
    return call.func.id if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else None


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request) -> Notebook:
    return Notebook(request.param)


@pytest.fixture(params=CHAPTERS, ids=lambda path: path.stem)
def chapter(request) -> Notebook:
    return Notebook(request.param)


@pytest.fixture(name="last_call")
def _last_call():
    return last_call
