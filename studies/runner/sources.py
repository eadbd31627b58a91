"""Which code a checkpoint is of: what trains, and nothing that only describes, draws or reads.

A checkpoint of other code would pass for a measurement of this one. So a folder of checkpoints
carries a hash of the code that trained them: the operators, kernels, residuals, models, tasks and
the loop of `geolab`, and the study with the studies and configurations that it imports. Comments,
docstrings and layout don't count.
"""

import ast
import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from geolab import distributed
from studies.results import ROOT, code_hash
from studies.runner import arm as runner
from studies.runner.arm import Arm

ROOMS = ("kernels", "operators", "residuals", "models", "tasks")  # show and probes train nothing
FILES = ("checks.py", "diagrammatic.py", "distributed.py", "penalties.py", "training.py")
# parts that build no arm
READERS = ("live", "papers", "protocol", "registry", "results", "runner", "verdict")


def of(arms: Sequence[Arm]) -> str:
    """The first digits of a hash of the code that trains these arms.

    Raises: ValueError for an arm whose model isn't built by a function of a file.
    """
    folder = ROOT / "geolab"
    files = {folder / name for name in FILES} | {Path(runner.__file__)}
    files |= {path for room in ROOMS for path in (folder / room).rglob("*.py")}
    return code_hash(files | imported({_source(arm.build) for arm in arms}))


def imported(files: Iterable[Path]) -> set[Path]:
    """The files, and those parts of `studies` that they import, directly or not, and that train."""
    waiting, found = list(files), set()
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                waiting += [where for name in names if (where := _file(name)) is not None]
    return found


def require_same(folder: Path, now: str, reason: str = "") -> dict:
    """Mark a new folder with the code that will train in it; refuse a folder of other code.

    Arguments:
        now: the hash of the present code, by `of`.
        reason: why checkpoints of other code may be used all the same.
    Returns: what the result file keeps: nothing, or under "forced" the reason and both hashes.
    Raises: ValueError for checkpoints that other code made, where no reason is given.
    """
    marked = folder / "sources"
    if distributed.rank() == 0:
        folder.mkdir(parents=True, exist_ok=True)
        if not marked.exists() and not next(folder.rglob("*.pt"), None):
            marked.write_text(now)
    distributed.barrier()  # nobody reads before it is written
    before = marked.read_text() if marked.exists() else "unknown"
    if before == now:
        return {}
    if not reason:
        raise ValueError(
            f"{folder} holds checkpoints that other code made (sources {before}, now {now}): go on "
            "with that code, delete the folder, give another --folder, or say with --force REASON "
            "why they may be used")
    return {"forced": {"reason": reason, "sources of checkpoints": before, "sources now": now}}


def _source(build: Callable) -> Path:
    """The file of the function that builds a model."""
    while isinstance(build, partial):
        build = build.func
    path = getattr(sys.modules.get(build.__module__), "__file__", None)
    if path is None:
        raise ValueError("build must be a function of a file, since the file says which "
                         f"checkpoints are its own, got {build.__qualname__} of "
                         f"{build.__module__}: write it to a file and import it from there")
    return Path(path)


def _file(module: str) -> Path | None:
    """The file of a study, or of the papers' configurations; other modules build no arm."""
    room, *names = module.split(".")
    if room != "studies" or not names:
        return None
    if module != "studies.papers.configurations" and (len(names) > 1 or names[0] in READERS):
        return None
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return None
    return Path(found.origin) if found and found.origin else None
