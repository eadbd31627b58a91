"""The closed-form Cayley transform of 4 × 4 matrices against torch.linalg.solve, on one thread of a
CPU.

    python -m benchmarks.cayley_cpu --out results/cayley_cpu.json     about a minute
    python -m benchmarks.cayley_cpu --rounds 5                        a first look

  solve      the usual way without the closed form: build M, solve (I + M) Q = I − M, and let
             autograd differentiate
  ours       the functions of geolab.operators
  compiled   either of them under torch.compile(fullgraph=True)
  defect     the largest entry of |QᵀQ − I|, in float32, for generators of magnitude 10⁶

The contenders take turns, and the fastest round of each counts. Its spread is the distance of the
quartiles of its rounds over their median, and "ours again" is ours a second time: by what the two
differ, two different ones differ by chance. The clock measures CPU time of this process, so other
programs on the machine don't count. All inputs need gradients, in the forward pass too. "forward +
backward" asks for the gradients of all of them, with a random cotangent.
"""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import quantiles

import torch
from torch import Tensor

from benchmarks.command import add_output, check_output, rounded
from geolab.operators import cayley_rank2, cayley_skew4, skew
from studies.engine.results import record

SIZES = (65536, 64)
MAGNITUDE = 1e6
QUESTION = "closed-form Cayley of 4 × 4 matrices against torch.linalg.solve, seconds per call"
# speed-up -> whose seconds are divided by whose
RATIOS = {"eager": ("solve", "ours"), "compiled": ("solve", "ours, compiled"),
          "both compiled": ("solve, compiled", "ours, compiled")}


def solve_skew4(w: Tensor) -> Tensor:
    """(I + W)⁻¹ (I − W): (N, 4, 4) -> (N, 4, 4)."""
    identity = torch.eye(4, dtype=w.dtype)
    return torch.linalg.solve(identity + w, identity - w)


def solve_rank2(u: Tensor, v: Tensor, beta: Tensor) -> Tensor:
    """Solve for the same with W = (β/2)(u vᵀ − v uᵀ): (N, 4), (N, 4), (N,) -> (N, 4, 4)."""
    outer = u.unsqueeze(-1) * v.unsqueeze(-2)
    return solve_skew4(beta[:, None, None] / 2 * (outer - outer.mT))


def plane(count: int) -> tuple[Tensor, ...]:
    """Random u, v and β."""
    return torch.randn(count, 4), torch.randn(count, 4), torch.rand(count)


def generator(count: int) -> tuple[Tensor, ...]:
    """A random skew W."""
    return skew(torch.randn(count, 4, 4)),


# name -> our function, the solve, and the function that draws their inputs
OPERATORS: dict[str, tuple[Callable, Callable, Callable]] = {
    "cayley_rank2": (cayley_rank2, solve_rank2, plane),
    "cayley_skew4": (cayley_skew4, solve_skew4, generator)}


def seconds_of(runs: Mapping[str, Callable[[], object]], repeats: int,
               rounds: int) -> dict[str, Sequence[float]]:
    """CPU seconds per call of each run, in each of `rounds` turns of `repeats` calls."""
    def turn(run: Callable[[], object]) -> float:
        start = time.process_time()
        for _ in range(repeats):
            run()
        return (time.process_time() - start) / repeats

    # the first round compiles and warms up, and doesn't count
    times = [[turn(run) for run in runs.values()] for _ in range(rounds + 1)][1:]
    return dict(zip(runs, zip(*times, strict=True), strict=True))


def spread(times: Sequence[float]) -> float:
    """The distance of the quartiles over the median."""
    low, middle, high = quantiles(times, n=4)
    return round((high - low) / middle, 3)


def measure(name: str, count: int, rounds: int, turn: int, compiler: str) -> list[dict]:
    """Return one row per pass: the seconds of every contender, and our speed-ups over the solve."""
    ours, solve, draw = OPERATORS[name]
    inputs, cotangent = [x.requires_grad_() for x in draw(count)], torch.randn(count, 4, 4)
    torch.compiler.reset()
    contenders = {"solve": solve, "ours": ours} | {
        f"{which}, compiled":
            torch.compile(function, fullgraph=True, dynamic=False, backend=compiler)
        for which, function in (("solve", solve), ("ours", ours))} | {"ours again": ours}
    passes = {"forward": lambda function: function(*inputs),
              "forward + backward":
                  lambda function: torch.autograd.grad(function(*inputs), inputs, cotangent)}
    rows = []
    for which, run in passes.items():
        runs = {contender: lambda function=function, run=run: run(function)
                for contender, function in contenders.items()}
        times = seconds_of(runs, max(1, turn // count), rounds)
        seconds = {contender: rounded(min(each)) for contender, each in times.items()}
        rows.append({"operator": name, "matrices": count, "pass": which, "seconds": seconds,
                     "spread": {contender: spread(each) for contender, each in times.items()},
                     "times as fast": ratios(seconds)})
    return rows


def ratios(seconds: Mapping[str, float]) -> dict[str, float]:
    """Seconds of a solve over seconds of ours, for each entry of RATIOS."""
    return {name: round(seconds[over] / seconds[under], 3)
            for name, (over, under) in RATIOS.items()}


def defects(name: str, count: int) -> dict[str, float]:
    """The worst defect of `count` rotations by generators of magnitude 10⁶, in float32."""
    ours, solve, draw = OPERATORS[name]
    *others, last = draw(count)  # the last one is β or W, in which the generator is linear
    found = {}
    for contender, function in (("solve", solve), ("ours", ours)):
        q = function(*others, MAGNITUDE * last).double()
        found[contender] = float(f"{(q.mT @ q - torch.eye(4)).abs().max():.3g}")
    return found


def line(row: dict) -> str:
    """One row of the printed table, in microseconds."""
    times = "".join(f"{1e6 * seconds:>17,.0f}" for seconds in row["seconds"].values())
    faster = "".join(f"{x:>14.2f}×" for x in row["times as fast"].values())
    return f"{row['operator']:<13}{row['matrices']:>7} {row['pass']:<19}{times}{faster}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cayley_cpu", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES,
                        help="matrices per call (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=40,
                        help="rounds, of which the fastest counts (default %(default)s)")
    parser.add_argument("--turn", type=int, default=20_000,
                        help="matrices per turn at least: small batches are repeated, since the "
                             "clock is coarse (default %(default)s)")
    parser.add_argument("--compiler", default="inductor",
                        help="backend of torch.compile (default %(default)s)")
    add_output(parser)
    given = parser.parse_args(arguments)
    if given.rounds < 2 or min(given.sizes) < 1:
        parser.error("--rounds must be at least 2 and --sizes at least 1, "
                     f"got {given.rounds} and {given.sizes}")
    check_output(parser, given)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        torch.manual_seed(0)
        contenders = ("solve", "ours", "solve, compiled", "ours, compiled", "ours again")
        print(f"{'µs per call':<40}" + "".join(f"{x:>17}" for x in contenders)
              + "".join(f"{x:>15}" for x in RATIOS))
        rows = []
        for name in OPERATORS:
            for count in given.sizes:
                rows += measure(name, count, given.rounds, given.turn, given.compiler)
                print(*map(line, rows[-2:]), sep="\n", flush=True)
        defect = {name: defects(name, 10_000) for name in OPERATORS}
        print("defect at magnitude 10⁶:", defect)
        if given.out:
            record(given.out, QUESTION,
                   {"rounds": given.rounds, "compiler": given.compiler, "times": rows,
                    "magnitude": MAGNITUDE, "defect": defect}, force=given.force)
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    main()
