"""Execute one notebook in a kernel of its own, to its end whatever its cells do, and say what raised and where the time went."""

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
TIMEOUT = 300   # seconds of a cell


class Failure(NamedTuple):
    cell: int          # counted as Jupyter does, from 1, code cells only
    line: str          # its first line
    error: str         # "AssertionError: …", in one line
    output: str        # the traceback, as the page shows it


class Outcome(NamedTuple):
    notebook: str
    seconds: float
    failures: list[Failure]
    slowest: tuple[float, int]   # seconds and number of the slowest cell


def execute(path: Path, out: Path | None = None, environment: dict[str, str] | None = None) -> Outcome:
    """Run all cells; a cell that raises doesn't stop the next ones.

    Arguments:
        out: where the executed copy goes; with failures it carries a notice under its title.
        environment: of the kernel, in place of this process's.
    """
    environment = {"JUPYTER_PLATFORM_DIRS": "1", **(environment or os.environ)}
    notebook, start = nbformat.read(path, as_version=4), time.monotonic()
    client = NotebookClient(notebook, timeout=TIMEOUT, kernel_name="python3", allow_errors=True,
                            resources={"metadata": {"path": str(path.parent)}})
    failures, times, number = [], [], 0
    with tempfile.TemporaryDirectory() as sockets, _kernel(client, environment, sockets):
        if "GEOLAB_STANDIN" in environment:
            _require_done(client.kc.execute_interactive(STAND_IN, store_history=False, timeout=TIMEOUT, output_hook=lambda _: None))
        for index, cell in enumerate(notebook.cells):
            if cell.cell_type != "code":
                continue
            number, began = number + 1, time.monotonic()
            try:
                client.execute_cell(cell, index)
            except (CellTimeoutError, DeadKernelError) as error:
                cell.outputs.append(nbformat.v4.new_output("error", ename=type(error).__name__, evalue=str(error).splitlines()[0],
                                                           traceback=[str(error)]))
            times.append((time.monotonic() - began, number))
            for output in cell.outputs:
                if output.output_type == "error":
                    first = next((line for line in cell.source.splitlines() if line.strip()), "")
                    wrong = " ".join(f"{output.ename}: {output.evalue}".split())
                    failures.append(Failure(number, first, wrong, "\n".join(output.traceback)))
            if failures and failures[-1].error.startswith("DeadKernelError"):
                break
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # clock times, which would make every copy another
    if out:
        if failures:
            title, _, rest = notebook.cells[0].source.partition("\n")
            notebook.cells[0].source = f"{title}\n\n{notice(failures)}\n{rest}"
        out.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, out)
    return Outcome(path.stem, time.monotonic() - start, failures, max(times, default=(0.0, 0)))


@contextmanager
def _kernel(client: NotebookClient, environment: dict[str, str], folder: str):
    """A kernel that talks through files of its own: ports are shared by the whole machine, and two kernels may pick the same."""
    client.km = KernelManager(kernel_name="python3")
    if os.name == "posix":
        client.km.transport, client.km.ip = "ipc", f"{folder}/kernel"
    with client.setup_kernel(env=environment):
        yield


def notice(failures: list[Failure]) -> str:
    """What the top of a page says when cells of it raised."""
    many = len(failures) > 1
    rows = "\n".join(f"- cell {failure.cell}: `{failure.error[:160].replace('`', chr(39))}`" for failure in failures)
    return (f":::{{warning}}\nOn the machine that built this page, {len(failures) if many else 'one'} cell{'s' if many else ''} ended "
            f"with an error, shown where it stands. What depends on it may be missing below.\n\n{rows}\n:::")


def _require_done(reply: dict) -> None:
    if reply["content"]["status"] != "ok":
        raise RuntimeError(f"the stand-in could not be set up: {reply['content'].get('evalue')}")
