"""The time of each way from a token's logits to H, over that of Sinkhorn's 20 iterations.

    python -m benchmarks.mixes --out results/mixes_cpu.json        a few minutes, on one thread
    python -m benchmarks.mixes --rounds 5 --compiler eager         a first look
    python -m benchmarks.mixes --device cuda --out results/mixes_h100.json

The ways are those of `geolab.residuals.mixing`, with float32 logits (tokens, count), and
"identity", which is H = I for every token and reads no logits. "sinkhorn again" is Sinkhorn a
second time: how far its ratio is from 1 is what the machine adds.

  reference  the functions of geolab.operators
  compiled   these under torch.compile(fullgraph=True)
  kernels    these with the Triton twins, where a way has one (on a CUDA device)

In each round every way of a path has one turn, in a new order, and its time is divided by that of
Sinkhorn's turn in the same round. A row has the median of these ratios and their spread, the
distance of the quartiles over the median. On the CPU the clock measures CPU time of this process.
On a busy machine the spread grows all the same, since the caches are shared. A row that says
"noisy" has a spread above 10 %. "forward + backward" asks for the gradient of the logits too.
"""

import argparse
import random
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median, quantiles

import torch
from torch import Tensor

from benchmarks.command import add_output, check_output, require_cuda
from geolab import kernels
from geolab.residuals.mixing import mixes
from studies.engine.results import record

QUESTION = "ways from logits to doubly stochastic matrices, time over that of Sinkhorn's iteration"
NOISY = 0.1
PATHS = {"cpu": ("reference", "compiled"), "cuda": ("reference", "compiled", "kernels")}
PASSES = ("forward", "forward + backward")


def ways(streams: int, tokens: int, device: str) -> dict[str, tuple[Callable, Tensor]]:
    """Each way that takes so many streams, by name, with logits (tokens, count)."""
    found = {}
    known = mixes()
    for name, mix in {"sinkhorn": known["sinkhorn"], "sinkhorn again": known["sinkhorn"],
                      **known}.items():
        try:
            count = mix.count(streams)
        except ValueError:  # more streams than the way takes
            continue
        logits = torch.randn(tokens, count, device=device, requires_grad=True)
        found[name] = (lambda z, mix=mix: mix.matrix(z, streams)), logits
    found["identity"] = (lambda z: torch.eye(streams, device=device).expand(tokens, -1, -1),
                         torch.zeros(tokens, 0, device=device))
    return found


def turn(function: Callable, logits: Tensor, cotangent: Tensor | None) -> None:
    """One call, and the gradient for a cotangent."""
    h = function(logits)
    if cotangent is not None and h.requires_grad:
        torch.autograd.grad(h, logits, cotangent)


def seconds(run: Callable[[], None], device: str) -> float:
    """CPU seconds of this process, or seconds until the device is done."""
    if device == "cpu":
        start = time.process_time()
        run()
        return time.process_time() - start
    torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return time.perf_counter() - start


def ratios(runs: Mapping[str, Callable[[], None]], rounds: int, device: str) -> dict[str, dict]:
    """The median ratio of each run to the first one, and its spread."""
    first, order = next(iter(runs)), random.Random(0)
    times = [{name: seconds(runs[name], device) for name in order.sample(list(runs), len(runs))}
             for _ in range(rounds + 2)][2:]  # the first rounds compile and warm up
    found = {}
    for name in runs:
        each = [row[name] / row[first] for row in times]
        low, middle, high = quantiles(each, n=4)
        spread = (high - low) / middle
        found[name] = {"ratio": round(median(each), 3), "spread": round(spread, 3),
                       "noisy": spread > NOISY}
    return found


def measure(streams: int, tokens: int, path: str, rounds: int, device: str,
             compiler: str) -> list[dict]:
    """One row per way and pass."""
    torch.manual_seed(0)
    cotangent = torch.randn(tokens, streams, streams, device=device)
    torch.compiler.reset()
    found = ways(streams, tokens, device)
    if path == "compiled":
        found = {name: (torch.compile(function, fullgraph=True, dynamic=False, backend=compiler),
                        logits) for name, (function, logits) in found.items()}
    rows = []
    with kernels.use("always" if path == "kernels" else "never"):
        for which in PASSES:
            given = None if which == "forward" else cotangent
            runs = {name: lambda function=function, logits=logits, given=given: turn(
                function, logits, given) for name, (function, logits) in found.items()}
            rows += [{"streams": streams, "path": path, "pass": which, "mix": name, **row}
                     for name, row in ratios(runs, rounds, device).items()]
    return rows


def line(row: dict) -> str:
    """One row of the printed table."""
    return (f"{row['streams']} {row['path']:<10} {row['pass']:<19} {row['mix']:<16}"
            f"{row['ratio']:>8.3f} ± {row['spread']:.0%}{' noisy' * row['noisy']}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mixes", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--streams", type=int, nargs="+", default=(4, 8))
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=60, help="at least 2 (default %(default)s)")
    parser.add_argument("--paths", nargs="+", choices=PATHS["cuda"],
                        help="all that the device has, unless named")
    parser.add_argument("--compiler", default="inductor",
                        help="backend of torch.compile (default %(default)s)")
    add_output(parser)
    given = parser.parse_args(arguments)
    if given.rounds < 2 or min(given.tokens, *given.streams) < 1:
        parser.error("--rounds must be at least 2, --tokens and --streams at least 1, got "
                     f"{given.rounds}, {given.tokens} and {given.streams}")
    check_output(parser, given)
    if "kernels" in (given.paths or ()) and given.device == "cpu":
        parser.error("--paths kernels needs --device cuda, got --device cpu")
    if given.device == "cuda":
        require_cuda(parser, "--device cpu measures on one thread")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = []
        for streams in given.streams:
            for path in given.paths or PATHS[given.device]:
                found = measure(streams, given.tokens, path, given.rounds, given.device,
                                 given.compiler)
                print(*map(line, found), sep="\n", flush=True)
                rows += found
        if given.out:
            record(given.out, QUESTION,
                   {"measured on": given.device, "tokens": given.tokens, "rounds": given.rounds,
                    "compiler": given.compiler, "noisy above": NOISY, "rows": rows},
                   force=given.force)
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    main()
