"""Every notebook is stored without what a run puts there, and its cells are short."""

import re
from pathlib import Path

import nbformat
import pytest

from studies.engine.closure import closure

ROOT = Path(__file__).resolve().parents[2]
FIGURES = sorted(ROOT.glob("notebooks/figures/*.py"))
LONGEST = 35  # lines per cell, which fit a screen
FOLDED = {"hide-input", "remove-input"}


def test_it_is_a_valid_notebook_of_the_python3_kernel(notebook):
    nbformat.validate(nbformat.from_dict(notebook.json))
    assert notebook.json["metadata"]["kernelspec"]["name"] == "python3"
    left = set(notebook.json["metadata"]) - {"kernelspec", "language_info"}
    assert not left, "a run leaves its widgets in the metadata"


def test_no_output_is_stored(notebook):
    for cell in notebook.code:
        assert cell["outputs"] == [] and cell["execution_count"] is None, cell["source"]


def test_each_cell_has_an_id_of_its_own(notebook):
    ids = [cell["id"] for cell in notebook.cells]
    assert all(ids) and len(set(ids)) == len(ids)


def test_no_cell_is_longer_than_a_screen(notebook):
    lengths = {cell["id"]: len(cell["source"].splitlines()) for cell in notebook.code}
    assert not {cell: length for cell, length in lengths.items() if length > LONGEST}


def test_each_cell_of_text_has_a_heading_a_sentence_or_markup(notebook):
    """A word that stands for a text to come is none of them."""
    said = re.compile(r"[.?!:]|^#|^```|^\*\*|</", re.M)
    assert not [cell["id"] for cell in notebook.cells
                if cell["cell_type"] == "markdown" and not said.search(cell["source"])]


def test_cells_hold_no_plumbing(notebook):
    plumbing = re.compile(r"^\s*%|^\s*!|\bplt\.|matplotlib\.pyplot", re.M)
    for cell in notebook.code:
        assert not plumbing.search(cell["source"]), cell["source"]


def test_a_cell_that_draws_is_folded(notebook, last_call):
    """Cells of solutions needn't be folded, because their code is the answer."""
    for cell in notebook.code:
        if last_call(cell["source"]) in ("show", "explore") and cell not in notebook.in_solutions():
            tags = set(cell["metadata"].get("tags", []))
            assert FOLDED & tags, f"tag it hide-input:\n{cell['source']}"


def test_a_figure_is_shown_by_the_last_line(notebook, last_call):
    for cell in notebook.code:
        if re.search(r"^(show|explore)\(", cell["source"], re.M):
            last = last_call(cell["source"])
            assert last in ("show", "explore"), f"only the last line is shown:\n{cell['source']}"


def test_the_reader_predicts_before_each_slider(notebook, last_call):
    for k, cell in enumerate(notebook.cells):
        if cell["cell_type"] == "code" and last_call(cell["source"]) == "explore":
            before = [other["source"] for other in notebook.cells[max(0, k - 3):k]
                      if other["cell_type"] == "markdown"]
            asks = any("Predict" in text for text in before)
            assert asks, f"the three cells before need a prediction:\n{cell['source']}"


@pytest.mark.parametrize("module", FIGURES, ids=lambda path: path.stem)
def test_a_module_of_figures_belongs_to_a_notebook(module):
    """A change in it makes the executed copy stale, because the notebook depends on it."""
    assert any(module in closure([path]) for path in ROOT.glob("*/*.ipynb"))
