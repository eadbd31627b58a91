"""Execute one notebook in a kernel of its own, and say which cells raised and how long it took."""

import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError

TOOLS = Path(__file__).resolve().parent
STAND_IN = f"import sys; sys.path.insert(0, {str(TOOLS)!r}); import standin; standin.apply()"
TIMEOUT = 300  # seconds per cell


class Failure(NamedTuple):
    cell: int     # its number among the code cells, from 1, as Jupyter counts
    line: str     # its first line
    error: str    # "AssertionError: ...", on one line
    output: str   # the traceback, as the page shows it


class Outcome(NamedTuple):
    notebook: str
    seconds: float
    failures: list[Failure]
    slowest: tuple[float, int]   # seconds and number of the slowest cell


def execute(path: Path, out: Path | None = None,
            environment: dict[str, str] | None = None) -> Outcome:
    """Run all cells. After a cell that raises, the next ones run all the same.

    Arguments:
        out: the path of the executed copy. With failures, it has a notice under its title.
        environment: that of the kernel; by default it is this process's.
    """
    environment = {"JUPYTER_PLATFORM_DIRS": "1", **(environment or os.environ)}
    notebook, start = nbformat.read(path, as_version=4), time.monotonic()
    client = NotebookClient(notebook, timeout=TIMEOUT, kernel_name="python3", allow_errors=True,
                            resources={"metadata": {"path": str(path.parent)}})
    failures, times, number = [], [], 0
    with tempfile.TemporaryDirectory() as sockets, _kernel(client, environment, sockets):
        if "GEOLAB_STANDIN" in environment:
            _require_done(client.kc.execute_interactive(
                STAND_IN, store_history=False, timeout=TIMEOUT, output_hook=lambda _: None))
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type != "code":
                continue
            number, began = number + 1, time.monotonic()
            try:
                client.execute_cell(cell, index)
            except (CellTimeoutError, DeadKernelError) as error:
                cell.outputs.append(nbformat.v4.new_output(
                    "error", ename=type(error).__name__, evalue=str(error).splitlines()[0],
                    traceback=[str(error)]))
            times.append((time.monotonic() - began, number))
            failures += [_failure(number, cell.source, output) for output in cell.outputs
                         if output.output_type == "error"]
            if failures and failures[-1].error.startswith("DeadKernelError"):
                break
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # clock times would make every copy another one
    if out:
        if failures:
            title, _, rest = notebook.cells[0].source.partition("\n")
            notebook.cells[0].source = f"{title}\n\n{notice(failures)}\n{rest}"
        out.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, out)
    slowest = max(times, default=(0.0, 0))
    return Outcome(path.stem, time.monotonic() - start, failures, slowest)


@contextmanager
def _kernel(client: NotebookClient, environment: dict[str, str], folder: str):
    """A kernel that talks through files of its own.

    All processes of a machine share its ports, and two kernels may choose the same one.
    """
    client.km = KernelManager(kernel_name="python3")
    if os.name == "posix":
        client.km.transport, client.km.ip = "ipc", f"{folder}/kernel"
    with client.setup_kernel(env=environment):
        yield


def _failure(number: int, source: str, output: nbformat.NotebookNode) -> Failure:
    first = next((line for line in source.splitlines() if line.strip()), "")
    error = " ".join(f"{output.ename}: {output.evalue}".split())
    return Failure(number, first, error, "\n".join(output.traceback))


def notice(failures: list[Failure]) -> str:
    """The notice at the top of a page whose cells raised."""
    cells = "one cell" if len(failures) == 1 else f"{len(failures)} cells"
    rows = "\n".join(f"- cell {failure.cell}: `{failure.error[:160].replace('`', chr(39))}`"
                     for failure in failures)
    return (f":::{{warning}}\nOn the machine that built this page, {cells} ended with an error, "
            "which the page shows in its place. What depends on it may be missing.\n\n"
            f"{rows}\n:::")


def _require_done(reply: dict) -> None:
    if reply["content"]["status"] != "ok":
        raise RuntimeError(f"the stand-in could not be set up: {reply['content'].get('evalue')}")
