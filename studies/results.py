"""Measurements as files: written once, with where they were made, and read with a check that nobody edited them.

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
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from shutil import which

import torch
import torch.distributed as dist


FOLDER = Path(__file__).parent.parent / "results"

T_QUANTILES = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean of a few seeds, and the half width of its 95 % interval by Student's t.

    Raises: ValueError for fewer than 2 values.
    """
    values = [float(value) for value in values]
    if len(values) < 2:
        raise ValueError(f"values must be at least 2 numbers, got {len(values)}")
    return statistics.mean(values), _quantile(len(values)) * statistics.stdev(values) / len(values) ** 0.5


def _quantile(count: int) -> float:
    """0.975 of Student's t with count − 1 degrees of freedom ν: from the table, then by its series in 1/ν (to 0.003 at ν = 10)."""
    z, nu = 1.959964, count - 1
    return T_QUANTILES.get(count) or z + (z**3 + z) / (4 * nu) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * nu**2)


def path_of(name: str, budget: str = "cpu") -> Path:
    """Where an experiment's file lies: results/NAME.BUDGET.json."""
    return FOLDER / f"{name}.{budget}.json"


def stored(name: str, budget: str = "cpu") -> dict:
    """What `python -m studies NAME --budget BUDGET` measured.

    Raises: FileNotFoundError where that run was not made, with the command that makes it; ValueError for an edited file.
    """
    path = path_of(name, budget)
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there: python -m studies {name} --budget {budget} makes it")
    return read(path)


def digest(content: dict) -> str:
    """SHA-256 of all but the entry "sha256", however the file is laid out."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read(path: str | Path) -> dict:
    """A file that `record` wrote.

    Raises: ValueError when its content is not what was written.
    """
    content = json.loads(Path(path).read_text())
    if content.get("sha256") != digest(content):
        raise ValueError(f"{path} was edited after it was measured: its content has SHA-256 {digest(content)}, "
                         f"recorded was {content.get('sha256')}. Restore the file, or measure again")
    return content


def record(path: str | Path, experiment: str, content: dict, *, force: bool = False) -> None:
    """Write a measurement with its provenance: device, processor, versions, commit, peak memory, and a hash of it all.

    Of several processes the first one writes.
    Arguments:
        force: write over what is there.
    Raises: FileExistsError where there is a file, without force: what was measured is not overwritten.
    """
    if dist.is_initialized() and dist.get_rank() > 0:
        return
    path = Path(path)
    whole = json.loads(json.dumps({"experiment": experiment, **provenance()} | content))
    with path.open("w" if force else "x") as file:
        file.write(json.dumps(whole | {"sha256": digest(whole)}, indent=1) + "\n")


def provenance() -> dict:
    """Of this process, and of the repository that this file lies in."""
    folder = Path(__file__).parent
    versions = {"torch": torch.__version__, "python": platform.python_version()}
    found = {"device": "cuda" if torch.cuda.is_available() else "cpu", "threads": torch.get_num_threads(), "processor": processor(),
             "commit": _said("git", "rev-parse", "--short", "HEAD", cwd=folder),
             "uncommitted changes": bool(_said("git", "status", "--porcelain", "--untracked-files=no", cwd=folder)),
             "sources": sources(), "versions": versions, "peak_bytes": peak_bytes()}
    if "triton" in sys.modules:
        versions["triton"] = sys.modules["triton"].__version__
    if torch.cuda.is_available():
        gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
        versions["cuda"] = torch.version.cuda
        found["gpu"] = {"name": gpu.name, "capability": f"{gpu.major}.{gpu.minor}", "multiprocessors": gpu.multi_processor_count,
                        "memory": gpu.total_memory,
                        "driver": _said("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").partition("\n")[0]}
    return found


@cache
def processor() -> dict:
    """What sums are added by here: two machines that differ in it differ in the last digit, and training makes more of that."""
    told = {name: os.environ[name] for name in ("ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA", "OMP_NUM_THREADS",
                                                "MKL_NUM_THREADS") if name in os.environ}
    blas = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
    version = re.search(r"(?:Math Kernel Library|OpenBLAS)[^\n]*?(\d[\w.]+)", torch.__config__.show())
    return {"name": _processor_name(), "architecture": platform.machine(), "cores": os.cpu_count(),
            "instruction_set": torch.backends.cpu.get_cpu_capability(),
            "blas": " ".join(found[1] for found in (blas, version) if found) or "unknown", "told": told}


def _processor_name() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists() and (found := re.search(r"^model name\s*: (.+)$", cpuinfo.read_text(), re.M)):
        return found[1]
    return _said("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor() or "unknown"


@cache
def sources() -> str:
    """The first digits of a hash of this package's Python files: which code measures, committed or not."""
    folder, found = Path(__file__).parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        found.update(f"{path.relative_to(folder).as_posix()}\n".encode() + path.read_bytes())
    return found.hexdigest()[:12]


def peak_bytes() -> dict:
    """The most memory held so far: of this process or one of its finished children, and on the GPU by this process."""
    found = {}
    try:
        import resource
    except ImportError:  # Windows
        pass
    else:
        unit = 1 if sys.platform == "darwin" else 1024
        found["process"] = unit * max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.max_memory_allocated()
    return found


def _said(*command: str, cwd: Path | None = None) -> str:
    """What a program prints; nothing where there is none, or it fails."""
    if not which(command[0]):
        return ""
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd).stdout.strip()
