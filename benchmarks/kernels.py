"""Every kernel against eager PyTorch, torch.compile and other libraries' kernels, its peers, on a
CUDA device, forward and backward.

    python -m benchmarks.kernels --out results/kernels_h200.json         everything: some minutes
    python -m benchmarks.kernels --only stream_read --quick              an eighth of the tokens
    TRITON_INTERPRET=1 python -m benchmarks.kernels --interpret          no GPU: errors, no times

Before anything is timed, the outputs and all gradients of each contender are compared with a
reference in float64, at the full size, in memory that held NaN before. A contender with a wrong
output isn't timed, and one with a wrong gradient has no backward time.

  µs       the median time of one pass on the device, by replays of CUDA graphs that take turns
  floor    bytes of the floor / time / bandwidth of a copy that is measured in the same run. A pass
           that moves each number once and does nothing else has 100 %
  peak     memory that is allocated beside the inputs
  error    ‖got − wanted‖ / ‖wanted‖, the worst of the outputs (forward) and of the gradients
           (backward); ! marks an error above the tolerance

The peers are compared if they are installed: pip install liger-kernel hyper-connections.
"""

import argparse
import gc
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median, quantiles
from unittest.mock import patch

import torch
from torch import Tensor

from benchmarks import timing
from benchmarks.cases import CASES, SIZES, STREAMS, Case, draws
from benchmarks.command import add_output, check_output, require_cuda, rounded
from benchmarks.floors import Bytes
from benchmarks.peers import installed, peers
from geolab import kernels
from studies.results import record

SIDES = ("forward", "backward")
KERNEL_TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 4e-3}
# eager PyTorch rounds coefficients and sums to the state's dtype
OTHER_TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 3e-2}
CACHE = 128 * 2**20  # bytes; more than the L2 cache of any device so far
TINY = {"state": ((37, 48),), "matrices": ((37, 0),)}
QUESTION = "kernels against PyTorch eager, torch.compile and peers: one pass on the device"


def contenders(name: str, case: Case, compiler: str) -> dict[str, Callable]:
    """Name -> function, for everything that computes a case. The kernel comes first, if there is
    one.
    """
    compiled = torch.compile(case.function, fullgraph=True, dynamic=False, backend=compiler)
    ours = {"kernel": _under("always", case.function)} if case.twin in kernels.TWINS else {}
    return ours | {"eager": _under("never", case.function),
                   "compiled": _under("never", compiled)} | peers(name)


def _under(mode: str, function: Callable) -> Callable:
    def inside(*inputs: Tensor):
        with kernels.use(mode):
            return function(*inputs)

    return inside


def wanted(case: Case, inputs: tuple[Tensor, ...], cotangents: list[Tensor]) -> list[Tensor]:
    """The outputs, then the gradients with respect to all inputs, in float64 without kernels."""
    leaves = [x.detach().double().requires_grad_() for x in inputs]
    with kernels.use("never"):
        outputs = timing.outputs_of(case.function, leaves)
    return [*(y.detach() for y in outputs),
            *torch.autograd.grad(outputs, leaves, [g.double() for g in cotangents])]


def errors(function: Callable, inputs: tuple[Tensor, ...], cotangents: list[Tensor],
           reference: list[Tensor]) -> tuple[float, float]:
    """The worst relative error among the outputs, and the worst among the gradients.

    Raises: ValueError for an output or gradient of the wrong shape.
    """
    with _poisoned(inputs[0].is_cuda):
        outputs = timing.outputs_of(function, inputs)
        got = [*outputs, *torch.autograd.grad(outputs, inputs, cotangents)]
    found = [_distance(*pair) for pair in zip(got, reference, strict=True)]
    return max(found[:len(outputs)]), max(found[len(outputs):])


def _distance(got: Tensor, reference: Tensor) -> float:
    if got.shape != reference.shape:
        raise ValueError("each output and gradient must have its reference's shape, "
                         f"{tuple(reference.shape)}, got {tuple(got.shape)}")
    error = ((got.detach().double() - reference).norm() / reference.norm()).item()
    return error if error == error else float("inf")


@contextmanager
def _poisoned(cuda: bool) -> Iterator[None]:
    """Let memory that is allocated inside the context begin as NaN.

    The outputs of our kernels always do. Other allocations do if they reuse a large block of the
    device's memory.
    """
    if cuda:
        timing.poison()
    if not kernels.TWINS:
        yield
        return
    from geolab.kernels import launch

    def nan(shape, **where) -> Tensor:
        return torch.full(shape, float("nan"), **where)

    with patch.object(launch, "allocate", nan):
        yield


def measure(name: str, case: Case, N: int, d: int, device: str, bandwidth: float,
            rounds: int) -> list[dict]:
    """One row per contender: its errors, and, unless `rounds` is 0, its times and memory.

    The row of a contender that fails has the message in place of numbers.
    """
    torch._dynamo.reset()  # Dynamo limits how many versions of a function it keeps
    # Triton's interpreter truncates to bfloat16, where a device rounds
    dtype = torch.bfloat16 if case.kind == "state" and device == "cuda" else torch.float32
    state, number = draws(device, dtype, seed=0)

    def inputs() -> tuple[Tensor, ...]:
        return tuple(x.detach().requires_grad_() for x in case.inputs(N, STREAMS, d, state, number))

    first = inputs()
    with torch.no_grad(), kernels.use("never"):
        cotangents = timing.cotangents_of(timing.outputs_of(case.function, first), seed=1)
    reference = wanted(case, first, cotangents)
    rows, right = [], []
    compiler = "inductor" if device == "cuda" else "aot_eager"
    for contender, function in contenders(name, case, compiler).items():
        row: dict = {"operator": name, "contender": contender, "N": N, "n": STREAMS, "d": d,
               "dtype": str(dtype).removeprefix("torch.")}
        rows.append(row)
        try:
            found = errors(function, first, cotangents, reference)
            row["error"] = dict(zip(SIDES, found, strict=True))
        # that a contender can't do a size is a result, which the table shows
        except Exception as problem:
            row["failed"] = _message(problem)
            continue
        tolerance = (KERNEL_TOLERANCE if contender == "kernel" else OTHER_TOLERANCE)[dtype]
        row["right"] = {side: error <= tolerance for side, error in row["error"].items()}
        if row["right"]["forward"]:
            right.append((row, function))
    del reference
    if rounds:
        # enough input sets to exceed the cache, and for about a millisecond of work
        floor, size = case.floor(N, STREAMS, d, dtype.itemsize), sum(x.nbytes for x in first)
        more = min(64, max(2, 2 * CACHE // size, int(1e-3 * bandwidth / floor.forward))) - 1
        _time(right, [first, *(inputs() for _ in range(more))], cotangents, floor, bandwidth,
              rounds)
    return rows


def _time(right: list[tuple[dict, Callable]], sets: list[tuple[Tensor, ...]],
          cotangents: list[Tensor], floor: Bytes, bandwidth: float, rounds: int) -> None:
    """Add times and memory to the rows of contenders with right outputs.

    A contender with a wrong gradient gets no backward time.
    """
    graphs = []
    for row, function in right:
        try:
            peaks = timing.peaks(function, sets[0], cotangents)
            row["peak_bytes"] = dict(zip(SIDES, peaks, strict=True))
            graphs.append((row, timing.captured(function, sets, cotangents)))
        except Exception as problem:  # as above: not every peer can be captured in a graph
            row["failed"] = _message(problem)
    runs = {(place, side): getattr(passes, side).replay for place, (_, passes) in enumerate(graphs)
            for side in SIDES}
    for (place, side), seconds in timing.turns(runs, rounds).items():
        row, _ = graphs[place]
        if row["right"][side]:
            time, tenths = median(seconds) / len(sets), quantiles(seconds, n=10)
            for key, found in {"us": 1e6 * time, "us_low": 1e6 * tenths[0] / len(sets),
                               "us_high": 1e6 * tenths[-1] / len(sets),
                               "floor_share": getattr(floor, side) / time / bandwidth}.items():
                row.setdefault(key, {})[side] = rounded(found)
    graphs.clear()
    runs.clear()
    gc.collect()
    torch.cuda.empty_cache()


def _message(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}".splitlines()[0][:300]


HEAD = (f"{'operator':<21} {'N':>6} {'d':>5}  {'contender':<17} "
        + "  ".join(f"{time:>8} {'floor':>6} {'peak':>9} {'error':>8} "
                    for time in ("µs", "µs back")))


def line(row: dict) -> str:
    """One row of the printed table."""
    head = f"{row['operator']:<21} {row['N']:>6} {row['d']:>5}  {row['contender']:<17} "
    if "error" not in row:
        return head + row["failed"][:90]
    cells = []
    for side in SIDES:
        timed, peak = "us" in row and side in row["us"], row.get("peak_bytes")
        share = f"{100 * row['floor_share'][side]:>4.0f} %" if timed else f"{'-':>6}"
        cells.append((f"{row['us'][side]:>8.1f} {share}" if timed else f"{'-':>8} {share}")
                     + (f" {peak[side] / 2**20:>5.0f} MiB" if peak else f" {'-':>9}")
                     + f" {row['error'][side]:>8.1e}{' ' if row['right'][side] else '!'}")
    return head + "  ".join(cells) + row.get("failed", "")[:60]


def run(names: list[str], sizes: dict, device: str, rounds: int) -> dict:
    """All rows, with the bandwidth of a copy before and after them.

    Arguments:
        sizes: kind of a case -> pairs of N and d.
        rounds: of timing; 0 measures errors alone.
    """
    bandwidth = timing.copy_bandwidth() if rounds else 0.0
    print(HEAD, flush=True)
    rows = []
    for name in names:
        for N, d in sizes[CASES[name].kind]:
            for row in measure(name, CASES[name], N, d, device, bandwidth, rounds):
                rows.append(row)
                print(line(row), flush=True)
    copies = {"copy_bytes_a_second": [rounded(bandwidth), rounded(timing.copy_bandwidth())],
              "rounds": rounds} if rounds else {}
    return copies | {"peers": installed(), "rows": rows}


def wrong(rows: list[dict]) -> list[str]:
    """A message for each kernel that failed or misses its tolerance, and for each operator that has
    no kernel.
    """
    bad = [f"{row['operator']} at N = {row['N']}: {row.get('failed') or row['error']}"
           for row in rows if row["contender"] == "kernel"
           and ("failed" in row or not all(row["right"].values()))]
    return bad + [f"{name} has no kernel" for name in dict.fromkeys(row["operator"] for row in rows)
                  if CASES[name].twin not in kernels.TWINS]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_output(parser)
    parser.add_argument("--only", metavar="NAME", help="only operators whose name contains NAME")
    parser.add_argument("--quick", action="store_true",
                        help="an eighth of the tokens and fewer rounds, for a first look")
    parser.add_argument("--interpret", action="store_true",
                        help="without a GPU: only the errors, at tiny sizes, in Triton's "
                             "interpreter")
    given = parser.parse_args(arguments)
    names = [name for name in CASES if not given.only or given.only in name]
    if not names:
        parser.error(f"--only must be part of one of the names {'; '.join(CASES)}, "
                     f"got {given.only!r}")
    check_output(parser, given)
    if given.interpret and (torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") != "1"):
        parser.error("--interpret needs TRITON_INTERPRET=1 in the environment, and a PyTorch that "
                     "sees no CUDA device (CUDA_VISIBLE_DEVICES= hides them)")
    if given.interpret:
        found = run(names, TINY, "cpu", rounds=0)
    else:
        require_cuda(parser, "--interpret checks the kernels without one")
        sizes = {kind: tuple((N // 8, d) for N, d in pairs)
                 for kind, pairs in SIZES.items()} if given.quick else SIZES
        found = run(names, sizes, "cuda", rounds=9 if given.quick else 31)
        before, after = found["copy_bytes_a_second"]
        print(f"copy: {before:.3g} and {after:.3g} bytes per second, before and after")
    if given.out:
        record(given.out, QUESTION, found, force=given.force)
    if bad := wrong(found["rows"]):
        sys.exit("wrong: " + "; ".join(bad))


if __name__ == "__main__":
    main()
