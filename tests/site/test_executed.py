"""The executed copies of notebooks are fresh, free of errors and warnings, and on the page."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRESS = re.compile(r"(?:[^|]*\d+%\|.*\|.*\[.*\]|\d+it \[.*\])?")  # tqdm's bar, or its remains


def read(path: Path) -> list[dict]:
    cells = json.loads(path.read_text())["cells"]
    return [{**cell, "source": "".join(cell["source"])} for cell in cells]


def code(cells: list[dict]) -> list[dict]:
    """The code cells that aren't empty."""
    return [cell for cell in cells if cell["cell_type"] == "code" and cell["source"].strip()]


@pytest.fixture
def executed(name) -> list[dict]:
    """The cells of the executed copy, or none for a page that is no notebook."""
    path = ROOT / f"_executed/{name}.ipynb"
    return read(path) if (ROOT / f"{name}.ipynb").exists() else []


@pytest.fixture
def outputs(executed) -> list[dict]:
    return [output for cell in code(executed) for output in cell["outputs"]]


def test_it_is_the_notebook_as_it_is_stored(name, executed):
    if executed:
        copy, stored = ([(cell["cell_type"], cell["source"]) for cell in cells]
                        for cells in (executed, read(ROOT / f"{name}.ipynb")))
        assert copy == stored


def test_every_cell_ran(executed):
    for cell in code(executed):
        assert cell["execution_count"], cell["source"]


def test_no_cell_failed(outputs):
    assert not [output for output in outputs if output["output_type"] == "error"]


def test_there_are_no_warnings(outputs):
    """The page drops stderr, so progress bars may stand there, and nothing else."""
    for output in outputs:
        if output.get("name") == "stderr":
            for line in re.split(r"[\r\n]+", "".join(output["text"])):
                assert PROGRESS.fullmatch(re.sub(r"\x1b\[\w+", "", line).strip()), line


def test_the_page_shows_it(executed, outputs, html):
    removed = {"remove-cell", "remove-input"}
    shown = [cell["source"].strip() for cell in code(executed)
             if not removed & set(cell["metadata"].get("tags", []))]
    assert [pre.get_text().strip() for pre in html.select(".cell_input pre")] == shown
    drawn = "".join("".join(output.get("data", {}).get("text/html", "")) for output in outputs)
    assert len(html.select(".geolab-explore")) == drawn.count('<div class="geolab-explore">')
    assert len(html.select(".cell_output [role=img]")) == drawn.count('role="img"')


def test_every_slider_of_the_notebook_is_on_the_page(executed, html):
    calls = sum(len(re.findall(r"^explore\(", cell["source"], re.M)) for cell in code(executed))
    assert len(html.select(".geolab-explore")) == calls
