"""A hash of the code that trains, which marks checkpoints.

A checkpoint of other code would pass for a measurement of this code. So a folder of checkpoints
keeps a hash of the code that trained them: the loop, the models and the tasks of the arms, and all
that these import. Code that only describes, draws or reads doesn't count, and neither do comments,
docstrings and layout.
"""

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FunctionType

from geolab import distributed
from studies.engine import arm as runner
from studies.engine.arm import Arm
from studies.engine.closure import closure
from studies.engine.results import ROOT, code_hash

# code that measures, draws, searches or reads, and builds no arm
READERS = {"geolab": ("probes", "show"), "studies": ("claims", "engine", "ledger", "parity")}
# files in these folders that build arms all the same
BUILDERS = ("studies/claims/configurations.py", "studies/engine/arm.py", "studies/engine/decay.py")


def of(arms: Sequence[Arm]) -> str:
    """Return the first digits of a hash of the code that trains these arms.

    Raises: ValueError for an arm whose model isn't built by a function of a file.
    """
    return code_hash(files(arms))


def files(arms: Sequence[Arm]) -> set[Path]:
    """Return the files of the code that trains these arms. Raises: ValueError as `of` does."""
    begun = {Path(runner.__file__)}
    for arm in arms:
        begun |= {_file(part) for part in (type(arm.task), *_parts(arm.build))}
    return {path for path in closure(begun) if _trains(path)}


def require_same(folder: Path, now: str, reason: str = "") -> dict:
    """Mark a new folder with the code that will train in it; refuse a folder of other code.

    Arguments:
        now: the hash of the present code, by `of`.
        reason: for using checkpoints of other code all the same.
    Returns: an entry for the result file: empty, or under "forced" the reason and both hashes.
    Raises: ValueError for checkpoints of other code without a reason.
    """
    marked = folder / "sources"
    if distributed.rank() == 0:
        folder.mkdir(parents=True, exist_ok=True)
        if not marked.exists() and not next(folder.rglob("*.pt"), None):
            marked.write_text(now)
    distributed.barrier()  # no process reads the file before it is written
    before = marked.read_text() if marked.exists() else "unknown"
    if before == now:
        return {}
    if not reason:
        raise ValueError(
            f"{folder} holds checkpoints that other code made (sources {before}, now {now}): go on "
            "with that code, delete the folder, give another --folder, or say with --force REASON "
            "why they may be used")
    return {"forced": {"reason": reason, "sources of checkpoints": before, "sources now": now}}


def _parts(build: object) -> Iterator[type | FunctionType]:
    """Return the functions and classes that build a model: a partial's own, and its arguments."""
    if isinstance(build, partial):
        for part in (build.func, *build.args, *build.keywords.values()):
            yield from _parts(part)
    elif isinstance(build, type | FunctionType) and build.__module__ != "builtins":
        yield build


def _file(part: type | FunctionType) -> Path:
    path = getattr(sys.modules.get(part.__module__), "__file__", None)
    if path is None:
        raise ValueError("build must be a function of a file, since the file says which "
                         f"checkpoints are its own, got {part.__qualname__} of "
                         f"{part.__module__}: write it to a file and import it from there")
    return Path(path)


def _trains(path: Path) -> bool:
    if not path.is_relative_to(ROOT):
        return True
    place = path.relative_to(ROOT)
    room, *inside = place.with_suffix("").parts
    return place.as_posix() in BUILDERS or not inside or inside[0] not in READERS.get(room, ())
