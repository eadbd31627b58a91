"""Execute copies of notebooks with nbmake, and say which cells raised and how long it took."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
COMMAND = [sys.executable, "-m", "pytest", "-c", ROOT / "pyproject.toml", "-v", "--no-header",
           "--nbmake", "--overwrite", "-p", "tools.whole_notebooks"]
KERNEL = {"GEOLAB_EXPLORE": "static", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1",
            "JUPYTER_PLATFORM_DIRS": "1"}  # the environment of a kernel whose copy becomes a page


class Failure(NamedTuple):
    cell: int     # its number among the code cells, from 1, as Jupyter counts
    line: str     # its first line
    error: str    # "AssertionError: ...", on one line


class Outcome(NamedTuple):
    seconds: float
    failures: list[Failure]


def outcome(copy: Path) -> Outcome | None:
    """Return the outcome of a copy, or None if it wasn't executed."""
    cells = json.loads(copy.read_text())["cells"] if copy.exists() else []
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    times = [datetime.fromisoformat(time.replace("Z", "+00:00")) for cell in code
             for time in cell["metadata"].get("execution", {}).values()]
    if not times:
        return None
    failures = [Failure(number, "".join(cell["source"]).strip().partition("\n")[0],
                        " ".join(f"{output['ename']}: {output['evalue']}".split()))
                for number, cell in enumerate(code, start=1) for output in cell["outputs"]
                if output["output_type"] == "error"]
    return Outcome((max(times) - min(times)).total_seconds(), failures)


def execute(copies: Sequence[Path], environment: Mapping[str, str], jobs: int = 1,
            quiet: bool = False) -> list[Outcome]:
    """Execute copies of notebooks in place; where a cell raises, the next ones run all the same.

    Arguments:
        copies: at least one, in the order in which they start.
        environment: that of the kernels.
        jobs: notebooks at once.
        quiet: whether nbmake's report is shown only where it could not run a notebook at all.
    Raises: RuntimeError in that case.
    """
    jobs = min(jobs, len(copies))  # a process that has nothing to do takes seconds to start
    share = ["-n", str(jobs), "--maxschedchunk", "1"] if jobs > 1 else []  # 1 keeps the order
    done = subprocess.run([*COMMAND, *share, *copies], cwd=ROOT, env=environment, check=False,
                          text=True, stderr=subprocess.STDOUT,
                          stdout=subprocess.PIPE if quiet else None)
    outcomes = [found for copy in copies if (found := outcome(copy))]
    if len(outcomes) < len(copies) or done.returncode != any(one.failures for one in outcomes):
        raise RuntimeError(f"nbmake ended with status {done.returncode}\n{done.stdout or ''}")
    return outcomes
