"""Measurements as files: written once, with their provenance, and refused if edited.

    record("results/mine.json", "what was asked", found)
    found = read("results/mine.json")
    stored("delta")                                      # results/delta.cpu.json
"""

import hashlib
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from shutil import which

import torch
import torch.distributed as dist

from geolab.files import whole
from studies.engine.closure import code

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "results"

def interval(values: Sequence[float], together: int = 1) -> tuple[float, float]:
    """The mean over a few seeds, and the half width of its 95 % interval by Student's t.

    Arguments:
        together: the number of intervals that hold at once with 95 % (Bonferroni).
    Raises: ValueError for fewer than 2 values.
    """
    from scipy.stats import t  # slow to load, and most readers of results need none
    values = [float(value) for value in values]
    if len(values) < 2:
        raise ValueError(f"values must be at least 2 numbers, got {len(values)}")
    deviation = statistics.stdev(values) / len(values) ** 0.5
    return statistics.mean(values), float(t.ppf(1 - 0.025 / together, len(values) - 1)) * deviation


def path_of(name: str, size: str = "cpu") -> Path:
    """The path of a study's file, results/NAME.SIZE.json."""
    return FOLDER / f"{name}.{size}.json"


def stored(name: str, size: str = "cpu") -> dict:
    """Return the measurements of `python -m studies NAME --size SIZE`.

    Raises: FileNotFoundError without that file; it names the command that makes it.
        ValueError for an edited file.
    """
    path = path_of(name, size)
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is not there: python -m studies {name} --size {size} makes it")
    return read(path)


def digest(content: dict) -> str:
    """The SHA-256 of all but the entry "sha256". The file's layout doesn't count."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read(path: str | Path) -> dict:
    """Read a file that `record` wrote.

    Raises: ValueError if its content has changed, or isn't JSON.
    """
    try:
        content = json.loads(Path(path).read_text())
    except ValueError as error:
        raise ValueError(f"{path} must be JSON that `record` wrote, got {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a JSON object, got {type(content).__name__}")
    if content.get("sha256") != digest(content):
        raise ValueError(
            f"{path} was edited after it was measured: its content has SHA-256 {digest(content)}, "
            f"and {content.get('sha256')} was recorded. Restore the file, or measure again")
    return content


def record(path: str | Path, question: str, content: dict, *, force: str = "") -> None:
    """Write a measurement with its provenance and a hash of it all.

    The provenance is the device, the processor, versions, the commit and the peak memory. Of
    several processes, the first one writes.

    Arguments:
        question: of the measurement; the file has it under "experiment".
        force: the reason for replacing a file; the new file keeps it.
    Raises: FileExistsError for a file that exists, without a reason to replace it.
    """
    if dist.is_initialized() and dist.get_rank() > 0:
        return
    path = Path(path)
    reason = {"replaced": force} if force and path.exists() else {}
    content = json.loads(json.dumps({"experiment": question, **provenance(), **reason} | content))
    if path.exists() and not force:
        raise FileExistsError(f"{path} is there, and is replaced for a reason only: force=...")
    with whole(path) as partial:
        partial.write_text(json.dumps(content | {"sha256": digest(content)}, indent=1) + "\n")


def provenance() -> dict:
    """The provenance of a measurement: this process, and the repository of this file."""
    versions = {"torch": torch.__version__, "python": platform.python_version()}
    changed = _said("git", "status", "--porcelain", "--untracked-files=no", cwd=ROOT)
    found = {"device": "cuda" if torch.cuda.is_available() else "cpu",
             "threads": torch.get_num_threads(), "processor": processor(),
             "commit": _said("git", "rev-parse", "--short", "HEAD", cwd=ROOT),
             "uncommitted changes": bool(changed),
             "sources": code_hash((ROOT / "geolab").rglob("*.py")), "versions": versions,
             "peak_bytes": peak_bytes()}
    if "triton" in sys.modules:
        versions["triton"] = sys.modules["triton"].__version__
    if torch.cuda.is_available():
        gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
        driver = _said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
        versions["cuda"] = torch.version.cuda
        found["gpu"] = {"name": gpu.name, "capability": f"{gpu.major}.{gpu.minor}",
                        "multiprocessors": gpu.multi_processor_count, "memory": gpu.total_memory,
                        "driver": driver.partition("\n")[0]}
    return found


TOLD = ("ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA", "OMP_NUM_THREADS",
        "MKL_NUM_THREADS")


@cache
def processor() -> dict:
    """Describe the processor and the instruction sets that compute sums.

    Machines that differ in these differ in the last digits, and training enlarges the difference.
    """
    config = torch.__config__.show()
    blas = re.search(r"BLAS_INFO=(\w+)", config)
    version = re.search(r"(?:Math Kernel Library|OpenBLAS)[^\n]*?(\d[\w.]+)", config)
    return {"name": _processor_name(), "architecture": platform.machine(), "cores": os.cpu_count(),
            "instruction_set": torch.backends.cpu.get_cpu_capability(),
            "blas": " ".join(found[1] for found in (blas, version) if found) or "unknown",
            "told": {name: os.environ[name] for name in TOLD if name in os.environ}}


def _processor_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    found = cpuinfo.exists() and re.search(r"^model name\s*: (.+)$", cpuinfo.read_text(), re.M)
    if found:
        return found[1]
    name = _said("sysctl", "-n", "machdep.cpu.brand_string")
    return name or platform.processor() or "unknown"


def code_hash(files: Iterable[Path]) -> str:
    """The first digits of a hash of Python files, committed or not.

    Comments, docstrings and layout don't count.
    """
    found = hashlib.sha256()
    for path in sorted(files):
        found.update(f"{path.name}\n{code(path.read_text())}".encode())
    return found.hexdigest()[:12]


def peak_bytes() -> dict:
    """The most memory held so far.

    "process" is this process or one of its finished children; "gpu" counts this process alone.
    """
    found = {}
    try:
        import resource
    except ImportError:  # Windows
        pass
    else:
        unit = 1 if sys.platform == "darwin" else 1024
        found["process"] = unit * max(resource.getrusage(who).ru_maxrss for who in (
            resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.max_memory_allocated()
    return found


def _said(*command: str, cwd: Path | None = None) -> str:
    """Return what a program prints, or nothing if it is missing or fails."""
    if not which(command[0]):
        return ""
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd).stdout.strip()
