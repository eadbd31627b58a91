"""Every kernel against eager PyTorch, torch.compile and other people's kernels, its peers, on a
CUDA device, forward and backward.

    python -m benchmarks.kernels --out results/kernels_h100.json     everything: some minutes
    python -m benchmarks.kernels --only stream_read sinkhorn --quick  two operators, fewer tokens
    python -m benchmarks.kernels --dtype float16 --without compiled   another state, and no compiler
    TRITON_INTERPRET=1 python -m benchmarks.kernels --interpret      no GPU: errors, no times

Each operator has a file of its own, written when it is measured: --out results/kernels_h100.json
makes results/kernels_h100.stream_read.json and so on.

Before anything is timed, the outputs and all gradients of each contender are compared with a
reference in float64, at the full size, in memory that held NaN before. A contender with a wrong
output isn't timed, and one with a wrong gradient has no backward time.

  µs       the median time of one pass on the device, by replays of CUDA graphs that take turns. The
           kernel has two turns, as "kernel" and as "kernel again": they differ by the clock's noise
  copy     the share that a copy takes of this time. The copy reads and writes as many bytes as the
           pass must at least, in the same ratio, at its fastest size of programs, and takes turns
           with the contenders. A pass that moves each number once and does nothing else has 100 %
  peak     memory that is allocated beside the inputs
  error    ‖got − wanted‖ / ‖wanted‖, the worst of the outputs (forward) and of the gradients
           (backward); ! marks an error above the tolerance, or a kernel's result that is too long
           or too short along the reference

The peers are those of benchmarks.peers. One that isn't installed, or doesn't take the dtype, has a
row that says so. --ddl PATH is a checkout of github.com/yifanzhang-pro/deep-delta-learning.
"""

import argparse
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks import timing
from benchmarks.cases import CASES, SIZES, STREAMS, Case, draws
from benchmarks.command import add_output, check_output, require_cuda, rounded
from benchmarks.contenders import Options, contenders
from benchmarks.peers import DDL_FILE, Contender, installed
from geolab import kernels
from studies.engine.results import record

SIDES = ("forward", "backward")
DTYPES = {name: getattr(torch, name) for name in ("bfloat16", "float16", "float32")}
# Rounding normal numbers once gives 1.66e-3 and 2.1e-4
KERNEL_TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2e-3, torch.float16: 3e-4}
BIAS = 1e-4  # of a kernel along the reference; rounding to nearest has almost none
# eager PyTorch rounds coefficients and sums to the state's dtype
OTHER_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 4e-3}
WORK = 3e9  # bytes: about a millisecond of a pass
TINY = {"state": ((37, 48),), "matrices": ((37, 0),)}
QUESTION = "kernels against PyTorch eager, torch.compile and peers: one pass on the device"


def wanted(case: Case, inputs: tuple[Tensor, ...], cotangents: list[Tensor]) -> list[Tensor]:
    """The outputs, then the gradients with respect to all inputs, in float64 without kernels."""
    leaves = [x.detach().double().requires_grad_() for x in inputs]
    with kernels.use("never"):
        outputs = timing.outputs_of(case.function, leaves)
    return [*(y.detach() for y in outputs),
            *timing.gradients(outputs, leaves, [g.double() for g in cotangents])]


class Error(NamedTuple):
    """‖got − wanted‖ / ‖wanted‖, and the share by which got is too long along wanted."""

    distance: float
    bias: float


def errors(contender: Contender, inputs: tuple[Tensor, ...], cotangents: list[Tensor],
           reference: list[Tensor]) -> tuple[Error, Error]:
    """The worst errors among the outputs, and the worst among the gradients.

    Raises: ValueError for an output or gradient of the wrong shape.
    """
    given = contender.given(*inputs)
    with _poisoned(inputs[0].is_cuda):
        outputs = timing.outputs_of(contender.function, given)
        got = [*outputs, *timing.gradients(outputs, given, cotangents)]
    found = [_error(*pair) for pair in zip(got, reference, strict=True)]
    return _worst(found[:len(outputs)]), _worst(found[len(outputs):])


def _worst(found: list[Error]) -> Error:
    return Error(*map(max, zip(*found, strict=True)))


def _error(got: Tensor, reference: Tensor) -> Error:
    if got.shape != reference.shape:
        raise ValueError("each output and gradient must have its reference's shape, "
                         f"{tuple(reference.shape)}, got {tuple(got.shape)}")
    off = got.detach().double() - reference
    found = (off.norm() / reference.norm(), (off * reference).sum().abs() / reference.norm()**2)
    return Error(*(x.item() if x == x else float("inf") for x in found))


@contextmanager
def _poisoned(cuda: bool) -> Iterator[None]:
    """Fill memory that is allocated inside the context with NaN at first.

    What `new_empty` allocates always does, such as the outputs of our kernels. Other allocations do
    if they reuse a large block of the device's memory.
    """
    if cuda:
        timing.poison()
    new_empty = Tensor.new_empty

    def nan(*given, **options) -> Tensor:
        made = new_empty(*given, **options)
        return made.fill_(float("nan")) if made.is_floating_point() else made

    # PyTorch's deterministic mode fills too, but in it the compiler makes other code than is timed
    with patch.object(Tensor, "new_empty", nan):
        yield


def measure(name: str, N: int, d: int, options: Options,
            given: dict[str, Contender] | None = None) -> list[dict]:
    """One row per contender: its errors, and, unless there are no rounds, its times and memory.

    Those of `contenders` are measured, unless others are `given`. The row of one that fails has the
    message in place of numbers. With times, there is also a row for the copies.
    """
    torch._dynamo.reset()  # Dynamo limits how many versions of a function it keeps
    case, device = CASES[name], options.device
    state, number = draws(device, options.dtype, seed=0)

    def inputs() -> tuple[Tensor, ...]:
        return tuple(x.detach().requires_grad_() for x in case.inputs(N, STREAMS, d, state, number))

    first = inputs()
    coarsest = max({x.dtype for x in first}, key=lambda dtype: torch.finfo(dtype).eps)
    what = {"operator": name, "N": N, "n": STREAMS, "d": d,
            "dtype": str(first[0].dtype).removeprefix("torch.")}
    with torch.no_grad(), kernels.use("never"):
        cotangents = timing.cotangents_of(timing.outputs_of(case.function, first), seed=1)
    reference = wanted(case, first, cotangents)
    rows, right = [], []
    for who, contender in (given or contenders(name, case, options)).items():
        row: dict = what | {"contender": who}
        rows.append(row)
        try:
            found = errors(contender, first, cotangents, reference)
        # a contender that can't do a size is a result, which the table shows
        except Exception as problem:
            row["failed"] = _message(problem)
            continue
        # Triton's interpreter truncates to bfloat16
        exact = (who.startswith("kernel") and name in CASES
                 and (device == "cuda" or coarsest.itemsize == 4))
        # errors of several roundings add up like independent ones
        tolerance = ((KERNEL_TOLERANCE if exact else OTHER_TOLERANCE)[coarsest]
                     * (1 + case.roundings)**0.5)
        row["error"] = {side: error.distance for side, error in zip(SIDES, found, strict=True)}
        row["bias"] = {side: error.bias for side, error in zip(SIDES, found, strict=True)}
        row["right"] = {side: error.distance <= tolerance and (error.bias <= BIAS or not exact)
                        for side, error in zip(SIDES, found, strict=True)}
        if row["right"]["forward"]:
            right.append((row, contender))
    del reference
    if options.rounds:
        size, outputs = (sum(x.nbytes for x in tensors) for tensors in (first, cotangents))
        floor = case.floor(N, STREAMS, d, options.dtype.itemsize)
        # (bytes read, bytes written) of each pass
        least = ((floor.forward - outputs, outputs), (floor.backward - size, size))
        # enough input sets to exceed the cache, and for about a millisecond of work
        count = max(2, 1 + 2 * timing.cache_bytes() // size, min(64, int(WORK / floor.forward)))
        sets = [first, *(inputs() for _ in range(count - 1))]
        rows.append(_time(right, sets, cotangents, least, options.rounds) | what)
    return rows


def _time(right: list[tuple[dict, Contender]], sets: list[tuple[Tensor, ...]],
          cotangents: list[Tensor], least: tuple[tuple[int, int], ...], rounds: int) -> dict:
    """Add times and memory to the rows of contenders with right outputs. Returns the copies' row.

    A contender with a wrong gradient gets no backward time.
    """
    copies = [timing.copied(read, written, len(sets)) for read, written in least]
    copy: dict = {"contender": "copy", "sets": len(sets), "right": dict.fromkeys(SIDES, True)}
    timed = {"copy": (copy, dict(zip(SIDES, (run for run, _ in copies), strict=True)))}
    for row, contender in right:
        try:
            own = [contender.given(*inputs) for inputs in sets]
            peaks = timing.peaks(contender.function, own[0], cotangents)
            row["peak_bytes"] = dict(zip(SIDES, peaks, strict=True))
            passes = timing.captured(contender.function, own, cotangents)
            timed[row["contender"]] = row, {side: getattr(passes, side).replay for side in SIDES}
        except Exception as problem:  # as above: not every peer can be captured in a graph
            row["failed"] = _message(problem)
    seconds = timing.turns({(who, side): run for who, (_, runs) in timed.items()
                            for side, run in runs.items()}, rounds,
                           meanwhile=lambda: copy.update(clocks=timing.clocks()))
    for place, side in enumerate(SIDES):
        # the seconds that copying the floor's bytes would take
        rate = copies[place][1] / median(seconds["copy", side])
        ideal = sum(least[place]) / rate
        copy.setdefault("bytes_a_second", {})[side] = rounded(len(sets) * rate)
        for who, (row, _) in timed.items():
            if row["right"][side]:
                time, tenths = median(seconds[who, side]), quantiles(seconds[who, side], n=10)
                for key, found in {"us": 1e6 * time, "us_low": 1e6 * tenths[0],
                                   "us_high": 1e6 * tenths[-1]}.items():
                    row.setdefault(key, {})[side] = rounded(found / len(sets))
                row.setdefault("copy_share", {})[side] = rounded(ideal / time)
    timed.clear()
    gc.collect()
    torch.cuda.empty_cache()
    return copy


def _message(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}".splitlines()[0][:300]


HEAD = (f"{'operator':<26} {'N':>6} {'d':>5}  {'contender':<26} "
        + "  ".join(f"{time:>8} {'copy':>6} {'peak':>9} {'error':>8} "
                    for time in ("µs", "µs back")))


def line(row: dict) -> str:
    """One row of the printed table."""
    head = f"{row['operator']:<26} {row['N']:>6} {row['d']:>5}  {row['contender']:<26} "
    if "right" not in row:
        return head + row["failed"][:90]
    cells = []
    for side in SIDES:
        timed, peak, error = side in row.get("us", ()), row.get("peak_bytes"), row.get("error")
        cells.append((f"{row['us'][side]:>8.1f} {100 * row['copy_share'][side]:>4.0f} %" if timed
                      else f"{'-':>8} {'-':>6}")
                     + (f" {peak[side] / 2**20:>5.0f} MiB" if peak else f" {'-':>9}")
                     + (f" {error[side]:>8.1e}" if error else f" {'-':>8}")
                     + (" " if row["right"][side] else "!"))
    return head + "  ".join(cells) + row.get("failed", "")[:60]


def run(name: str, sizes: dict, options: Options) -> dict:
    """All rows of an operator, at all `sizes`: kind of a case -> pairs of N and d."""
    rows = []
    for N, d in sizes[CASES[name].kind]:
        for row in measure(name, N, d, options):
            rows.append(row)
            print(line(row), flush=True)
    return {"rounds": options.rounds, "peers": installed(options.ddl), "rows": rows}


def wrong(rows: list[dict]) -> list[str]:
    """A message for each kernel that failed or misses its tolerance, and for each operator that has
    no kernel.
    """
    bad = [f"{row['operator']} at N = {row['N']}: {row.get('failed') or row['error']}"
           for row in rows if row["contender"] == "kernel"
           and ("failed" in row or not all(row["right"].values()))]
    return bad + [f"{name} has no kernel" for name in dict.fromkeys(row["operator"] for row in rows)
                  if CASES[name].twin not in kernels.TWINS]


def file_of(out: Path, name: str) -> Path:
    """The file of an operator: kernels.json -> kernels.delta_update-d_v-4.json."""
    words = name.replace(",", "").replace(" =", "").split()
    return out.with_suffix(f".{'-'.join(words)}{out.suffix}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_output(parser)
    parser.add_argument("--only", nargs="+", choices=CASES, metavar="NAME", default=list(CASES),
                        help=f"operators (default all of {'; '.join(CASES)})")
    parser.add_argument("--without", nargs="+", metavar="NAME", default=[],
                        help="contenders to leave out: eager, compiled, liger-kernel, ...")
    parser.add_argument("--dtype", choices=DTYPES, help="the state's (default bfloat16; float32 "
                        "with --interpret, since the interpreter truncates to bfloat16)")
    parser.add_argument("--ddl", type=Path, metavar="PATH",
                        help="a checkout of the Deep Delta Learning authors' repository")
    parser.add_argument("--quick", action="store_true",
                        help="an eighth of the tokens and fewer rounds, for a first look")
    parser.add_argument("--interpret", action="store_true",
                        help="without a GPU: errors, at tiny sizes, in Triton's interpreter")
    given = parser.parse_args(arguments)
    if given.ddl and not (given.ddl / DDL_FILE).is_file():
        parser.error(f"--ddl must be a folder with {DDL_FILE}, got {given.ddl}")
    files = {name: file_of(given.out, name) for name in given.only} if given.out else {}
    for path in files.values():
        check_output(parser, argparse.Namespace(out=path, force=given.force))
    if given.interpret and (torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") != "1"):
        parser.error("--interpret needs TRITON_INTERPRET=1 in the environment, and a PyTorch that "
                     "sees no CUDA device (CUDA_VISIBLE_DEVICES= hides them)")
    if not given.interpret:
        require_cuda(parser, "--interpret checks the kernels without one")
    device, rounds, usual = (("cpu", 0, "float32") if given.interpret
                             else ("cuda", 9 if given.quick else 31, "bfloat16"))
    sizes = TINY if given.interpret else SIZES if not given.quick else {
        kind: tuple((N // 8, d) for N, d in pairs) for kind, pairs in SIZES.items()}
    options = Options(device, rounds, DTYPES[given.dtype or usual], tuple(given.without), given.ddl)
    print(HEAD, flush=True)
    bad = []
    for name in given.only:
        found = run(name, sizes, options)
        bad += wrong(found["rows"])
        if given.out:
            record(files[name], QUESTION, found, force=given.force)
    if bad:
        sys.exit("wrong: " + "; ".join(bad))


if __name__ == "__main__":
    main()
