"""A plugin of pytest that adds to nbmake what the book needs.

    python -m pytest --nbmake --overwrite -p tools.whole_notebooks COPY...

nbmake stops at the first error, and loses the outputs of a kernel that dies. With this plugin, a
page shows each error in its place, and the outputs after it. The plugin sets up a stand-in
for another machine before the first cell. Two kernels may choose the same port, so they communicate
through files.
"""

import os
import tempfile
import uuid
from pathlib import Path

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat.v4 import new_output
from nbmake import nb_run

STAND_IN = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import standin"


class Whole(NotebookClient):
    def execute(self, **options):
        self.allow_errors = True
        super().execute(**options)
        for cell in self.nb.cells:
            for output in cell.get("outputs", ()):
                if output.output_type == "error":
                    raise CellExecutionError("", output.ename, output.evalue)

    def create_kernel_manager(self):
        manager = super().create_kernel_manager()
        if os.name == "posix":
            manager.connection_file = f"{tempfile.gettempdir()}/kernel-{uuid.uuid4().hex}.json"
            manager.transport = "ipc"
        return manager

    async def async_start_new_kernel_client(self):
        kernel = await super().async_start_new_kernel_client()
        if "GEOLAB_STANDIN" in os.environ:
            reply = await kernel.execute_interactive(f"{STAND_IN}; standin.apply()", silent=True)
            assert reply["content"]["status"] == "ok", f"no stand-in: {reply['content']}"
        return kernel

    async def async_execute_cell(self, cell, *arguments, **options):
        try:
            return await super().async_execute_cell(cell, *arguments, **options)
        except (CellTimeoutError, DeadKernelError) as error:
            name, said = type(error).__name__, str(error).strip()
            cell.outputs.append(new_output("error", ename=name, evalue=said, traceback=[said]))
            raise CellExecutionError(said, name, said) from error  # nbmake keeps the outputs


nb_run.NotebookClient = Whole
