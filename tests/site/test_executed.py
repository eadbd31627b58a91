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


@pytest.fixture
def executed(name) -> list[dict]:
    """The code cells of the executed copy that aren't empty, or none if the page is no notebook."""
    stored = ROOT / f"{name}.ipynb"
    if not stored.exists():
        return []
    copy, before = read(ROOT / f"_executed/{name}.ipynb"), read(stored)
    assert [(cell["cell_type"], cell["source"]) for cell in copy] == [
        (cell["cell_type"], cell["source"]) for cell in before]
    return [cell for cell in copy if cell["cell_type"] == "code" and cell["source"].strip()]


def test_every_cell_ran_without_an_error_or_a_warning(executed):
    """The page drops stderr, so progress bars may stand there, and nothing else."""
    for cell in executed:
        assert cell["execution_count"], cell["source"]
        for output in cell["outputs"]:
            assert output["output_type"] != "error", cell["source"]
            told = output["text"] if output.get("name") == "stderr" else []
            for line in re.split(r"[\r\n]+", "".join(told)):
                assert PROGRESS.fullmatch(re.sub(r"\x1b\[\w+", "", line).strip()), line


def test_the_page_shows_it(executed, html):
    removed = {"remove-cell", "remove-input"}
    shown = [cell["source"].strip() for cell in executed
             if not removed & set(cell["metadata"].get("tags", []))]
    assert [pre.get_text().strip() for pre in html.select(".cell_input pre")] == shown
    drawn = "".join("".join(output.get("data", {}).get("text/html", ""))
                    for cell in executed for output in cell["outputs"])
    assert len(html.select(".geolab-explore")) == drawn.count('<div class="geolab-explore">')
    assert len(html.select(".cell_output [role=img]")) == drawn.count('role="img"')
