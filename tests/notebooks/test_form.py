"""Every notebook is stored without what a run puts there, and its cells are short."""

import ast
import re
from pathlib import Path

import nbformat

from studies.engine.closure import closure

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 35  # lines per cell, which fit a screen
SPACED = re.compile(r"(?<![\d.])\d{1,3} \d{3}(?!\d)")
PLUMBING = re.compile(r"^\s*%|^\s*!|\bplt\.|matplotlib\.pyplot", re.M)


def drawn_by(cell: dict) -> str | None:
    """"show" or "explore" if a cell's last line calls it."""
    last = ast.unparse((ast.parse(cell["source"]).body or [ast.Pass()])[-1])
    return next((name for name in ("show", "explore") if last.startswith(f"{name}(")), None)


def test_it_is_a_valid_notebook_as_it_was_before_a_run(notebook):
    nbformat.validate(nbformat.from_dict(notebook.json))
    assert notebook.json["metadata"]["kernelspec"]["name"] == "python3"
    left = set(notebook.json["metadata"]) - {"kernelspec", "language_info"}
    assert not left, "a run leaves its widgets in the metadata"
    ids = [cell["id"] for cell in notebook.cells]
    assert all(ids) and len(set(ids)) == len(ids)
    for cell in notebook.code:
        assert cell["outputs"] == [] and cell["execution_count"] is None, cell["source"]


def test_no_cell_is_longer_than_a_screen_or_holds_plumbing(notebook):
    for cell in notebook.code:
        assert len(cell["source"].splitlines()) <= LONGEST, cell["source"]
        assert not PLUMBING.search(cell["source"]), cell["source"]


def test_a_large_number_has_a_comma_so_that_no_screen_breaks_it(notebook):
    for cell in notebook.cells:
        assert not SPACED.search(cell["source"]), cell["source"]


def test_setup_is_the_first_code_cell_and_leaves_the_page(notebook):
    first = notebook.code[0]
    assert first["source"].startswith("# On Colab") and first["metadata"]["tags"] == ["remove-cell"]
    assert [cell for cell in notebook.code if "google.colab" in cell["source"]] == [first]


def test_a_figure_is_shown_by_the_last_line_of_a_folded_cell(notebook):
    """Cells of solutions needn't be folded, because their code is the answer."""
    for cell in notebook.code:
        if re.search(r"^(show|explore)\(", cell["source"], re.M):
            assert drawn_by(cell), f"only the last line is shown:\n{cell['source']}"
        if drawn_by(cell) and cell not in notebook.in_solutions():
            tags = set(cell["metadata"].get("tags", []))
            assert tags & {"hide-input", "remove-input"}, f"tag it hide-input:\n{cell['source']}"


def test_the_reader_predicts_before_each_slider(notebook):
    for k, cell in enumerate(notebook.cells):
        if cell["cell_type"] == "code" and drawn_by(cell) == "explore":
            before = [other["source"] for other in notebook.cells[max(0, k - 3):k]
                      if other["cell_type"] == "markdown"]
            asks = any("Predict" in text for text in before)
            assert asks, f"the three cells before need a prediction:\n{cell['source']}"


def test_a_module_of_figures_belongs_to_a_notebook():
    """A change in it makes the executed copy stale, because the notebook depends on it."""
    assert set(ROOT.glob("notebooks/figures/*.py")) <= closure(ROOT.glob("*/*.ipynb"))
