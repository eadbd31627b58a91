"""nbmake executes whole notebooks: after an error, under a stand-in, and where a kernel ends."""

import json
import os

import nbformat
import pytest

from executor import KERNEL, execute

SEED = "import torch\nprint(torch.Generator().manual_seed(0).initial_seed())"
CELLS = {
    "raises": ["print('before')\n1 / 0", SEED, "assert False, 'again'"],
    "ends": ["print('before', flush=True)\nimport os, time\ntime.sleep(0.5)\nos._exit(1)", SEED],
    "waits": [SEED, "import time\ntime.sleep(60)", SEED],
}


def text(cell: dict) -> str:
    return "".join("".join(output.get("text", [])) for output in cell["outputs"])


def write(folder, name, limit):
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    cells = [nbformat.v4.new_code_cell(source) for source in CELLS[name]]
    metadata = {"kernelspec": kernel, "execution": {"timeout": limit}}
    path = folder / f"{name}.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), path)
    return path


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """Each notebook's outcome and cells, under a stand-in that moves seeds by 1000."""
    folder = tmp_path_factory.mktemp("notebooks")
    copies = [write(folder, name, 5 if name == "waits" else 300) for name in CELLS]
    found = execute(copies, os.environ | KERNEL | {"GEOLAB_STANDIN": '{"seeds": 1000}'}, quiet=True)
    return {copy.stem: (one, json.loads(copy.read_text())["cells"])
            for copy, one in zip(copies, found, strict=True)}


def test_every_cell_runs_after_an_error_and_under_the_stand_in(executed):
    found, cells = executed["raises"]
    assert [(one.cell, one.line, one.error) for one in found.failures] == [
        (1, "print('before')", "ZeroDivisionError: division by zero"),
        (3, "assert False, 'again'", "AssertionError: again")]
    assert text(cells[1]) == "1000\n" and found.seconds > 0


@pytest.mark.parametrize("name, cell, error, kept", [
    ("ends", 1, "DeadKernelError", "before\n"), ("waits", 2, "CellTimeoutError", "1000\n")])
def test_what_came_before_the_end_is_kept_and_the_end_is_an_error(
        executed, name, cell, error, kept):
    found, cells = executed[name]
    assert {one.cell for one in found.failures} == {cell}
    assert found.failures[0].error.startswith(error)
    assert text(cells[0]) == kept and not cells[-1]["outputs"]


def test_a_stand_in_that_cannot_be_set_up_is_no_run(tmp_path):
    with pytest.raises(RuntimeError, match="no stand-in"):
        execute([write(tmp_path, "raises", 300)],
                os.environ | {"GEOLAB_STANDIN": "no JSON"}, quiet=True)
