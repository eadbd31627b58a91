"""Walls around a student's process, and the plain data that passes through them.

Inside are the notebook's cells, the book's library and an empty folder. There is no network, no
process of the machine, no home, no course and no classes/: Linux's namespaces hide them, and
limits hold for memory, processes, files and time. What a cell rebinds stays inside. Outside come
numbers, letters and lists of them, which nothing but this program compares.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grade_run import plain, unpacked

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = ("geolab", "studies", "benchmarks", "results", "notebooks/figures")  # what cells read
HIDDEN = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/root", "/home")
MOST = 4_000_000  # bytes of one reply
# $@ is: how many folders stay, these, then those to hide, "--", and what to run. The folders that
# stay wait in the present folder while the others are covered.
SCRIPT = r"""
set -e
bound() { mount --rbind "$1" "$2"; for more in "" ,nosuid,nodev ,nosuid,nodev,noexec; do
  mount -o "remount,bind,ro$more" "$2" 2>/dev/null && return; done; exit 9; }
mount -t tmpfs -o size=1m none . && cd "$PWD"
kept=$1; shift; k=0; names=
while [ $k -lt $kept ]; do
  mkdir $k; mount --rbind "$1" $k; eval "at$k=\$1"; k=$((k + 1)); shift; done
while [ "$1" != -- ]; do
  if [ -d "$1" ]; then mount -t tmpfs -o size=64m,mode=1777 none "$1"; fi; shift; done
shift; k=0
while [ $k -lt $kept ]; do
  eval "to=\$at$k"; mkdir -p "$to" 2>/dev/null || true; bound ./$k "$to"; k=$((k + 1)); done
mount -t proc none /proc
cd /tmp
exec "$@"
"""


class Stopped(Exception):
    """The process ended, was too slow, or said what isn't plain data. The argument says which."""


@dataclass(frozen=True)
class Limits:
    """The limits of a student's process."""

    cell: float = 120     # seconds
    total: float = 900    # seconds
    memory: float = 6     # GB
    processes: int = 64
    folder: int = 64      # MB of a file

    def kernel(self) -> dict[str, int]:
        """The limits that the kernel holds."""
        return {"RLIMIT_AS": int(self.memory * 1e9), "RLIMIT_NPROC": self.processes,
                "RLIMIT_CPU": int(self.total) + 1, "RLIMIT_FSIZE": self.folder * 1_000_000,
                "RLIMIT_CORE": 0}


def inside(hidden: list[Path]) -> list[str]:
    """The command that builds the walls, to which the command to run is added."""
    root = os.geteuid() == 0
    spaces = [] if root else ["--user", "--map-root-user"]
    other = ["--reuid=65534", "--regid=65534", "--clear-groups"] if root else []
    python = Path(sys.prefix).resolve()
    kept = [folder for name in LIBRARY if (folder := ROOT / name).is_dir()]
    kept += [python, *({Path(sys.base_prefix).resolve()} - {python, Path("/usr")})]
    covered = [Path(name) for name in HIDDEN] + [Path.home(), ROOT, *hidden]
    covered = sorted({path.resolve() for path in covered if path.is_dir()})
    return ["unshare", *spaces, "--mount", "--net", "--pid", "--ipc", "--fork", "--kill-child",
            "sh", "-c", SCRIPT, "walls", str(len(kept)), *map(str, kept), *map(str, covered), "--",
            "setpriv", *other, "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"]


def stand(hidden: list[Path]) -> str:
    """Say why walls can't be built here, or nothing if they can."""
    if not sys.platform.startswith("linux") or not shutil.which("unshare"):
        return "walls need Linux and its command unshare"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([*inside(hidden), "true"], cwd=folder, capture_output=True, text=True,
                              check=False)
    return "" if done.returncode == 0 else (done.stderr.strip() or "unshare is refused")


class Student:
    """A running process: its answers, and its functions as functions of plain data."""

    def __init__(self, process: subprocess.Popen, limits: Limits):
        assert process.stdin and process.stdout
        self.requests, self.replies = process.stdin, process.stdout
        self.limits, self.rest, self.number = limits, b"", 0
        self.end = time.monotonic() + limits.total

    def answers(self, cells: list[tuple[int, str]], names: list[str]) -> tuple[dict, dict]:
        """The values that the notebook's cells leave under the names, and the cells' errors.

        Raises: Stopped, whose second argument is the cell at which the process stopped.
        """
        self.tell(cells=cells, names=names, limits=self.limits.kernel(), path=[str(ROOT)])
        cell = None
        try:
            while "answers" not in (said := self.hear()):
                cell = said.get("cell")
        except Stopped as stopped:
            raise Stopped(str(stopped), cell) from None
        answers, errors = said["answers"], said.get("errors")
        if not isinstance(answers, dict) or not isinstance(errors, dict):
            raise Stopped("it replied to what nobody asked", cell)
        return answers, errors

    def call(self, name: str, *given: Any) -> Any:
        """Call a function inside. Raises: RuntimeError for what it raises; Stopped."""
        self.number += 1
        self.tell(call=name, given=[plain(value) for value in given], number=self.number)
        said = self.hear()
        if said.get("number") != self.number or not {"value", "error"} & set(said):
            raise Stopped("it replied to what nobody asked")
        if "error" in said:
            raise RuntimeError(str(said["error"]))
        return unpacked(said["value"])

    def tell(self, **said: Any) -> None:
        try:
            self.requests.write(json.dumps(said).encode() + b"\n")
            self.requests.flush()
        except BrokenPipeError:
            raise Stopped("it ended the process") from None

    def hear(self) -> dict:
        """The next line, as an object. Raises: Stopped."""
        until = min(self.end, time.monotonic() + self.limits.cell)
        while b"\n" not in self.rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.replies], [], [], left)[0]:
                raise Stopped(f"it ran past {self.limits.cell:g} s")
            read = os.read(self.replies.fileno(), 65536)
            if not read:
                raise Stopped("it ended the process")
            self.rest += read
            if len(self.rest) > MOST:
                raise Stopped(f"it replied with more than {MOST / 1e6:g} MB")
        line, _, self.rest = self.rest.partition(b"\n")
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            raise Stopped("it replied with what isn't JSON") from None
        if not isinstance(said, dict):
            raise Stopped("it replied with what isn't an object")
        return said


@contextmanager
def student(hidden: list[Path], limits: Limits, walls: bool) -> Iterator[Student]:
    """A process for a notebook. It and all that it has started end with the context."""
    with tempfile.TemporaryDirectory() as folder:
        begin = inside(hidden) if walls else []
        python = Path(sys.prefix).resolve() / "bin/python"
        program = (Path(__file__).parent / "grade_run.py").read_text()
        process = subprocess.Popen(
            [*begin, str(python), "-I", "-B", "-c", program], cwd=folder, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={"PATH": os.environ["PATH"], "HOME": "/tmp" if walls else folder,
                 "MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
        try:
            yield Student(process, limits)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
