"""How every notebook is stored: nothing in it that a run puts there, and cells that a reader takes in at a glance."""

import re

import nbformat

LONGEST = 35  # lines of a cell: a screen
FOLDED = {"hide-input", "remove-input"}


def test_it_is_a_valid_notebook_of_the_python3_kernel(notebook):
    nbformat.validate(nbformat.from_dict(notebook.json))
    assert notebook.json["metadata"]["kernelspec"]["name"] == "python3"
    assert set(notebook.json["metadata"]) <= {"kernelspec", "language_info"}, "a run leaves its widgets here"


def test_no_output_is_stored(notebook):
    for cell in notebook.code:
        assert cell["outputs"] == [] and cell["execution_count"] is None, cell["source"]


def test_each_cell_has_an_id_of_its_own(notebook):
    ids = [cell["id"] for cell in notebook.cells]
    assert all(ids) and len(set(ids)) == len(ids)


def test_no_cell_is_longer_than_a_screen(notebook):
    too_long = {cell["id"]: len(lines) for cell in notebook.code if len(lines := cell["source"].splitlines()) > LONGEST}
    assert not too_long, f"lines of each: {too_long}"


def test_cells_hold_no_plumbing(notebook):
    for cell in notebook.code:
        assert not re.search(r"^\s*%|^\s*!|\bplt\.|matplotlib\.pyplot", cell["source"], re.M), cell["source"]


def test_a_cell_that_draws_is_folded(notebook, last_call):
    """Outside of solutions, where the code is the answer."""
    for cell in notebook.code:
        if last_call(cell["source"]) in ("show", "explore") and cell not in notebook.in_solutions():
            assert FOLDED & set(cell["metadata"].get("tags", [])), f"tag it hide-input:\n{cell['source']}"


def test_a_figure_is_shown_by_the_last_line(notebook, last_call):
    for cell in notebook.code:
        if re.search(r"^(show|explore)\(", cell["source"], re.M):
            assert last_call(cell["source"]) in ("show", "explore"), f"only a cell's last line is shown:\n{cell['source']}"


def test_the_reader_predicts_before_each_slider(notebook, last_call):
    for k, cell in enumerate(notebook.cells):
        if cell["cell_type"] == "code" and last_call(cell["source"]) == "explore":
            before = [other["source"] for other in notebook.cells[max(0, k - 3):k] if other["cell_type"] == "markdown"]
            assert any("Predict" in text for text in before), f"no prediction within three cells before:\n{cell['source']}"
