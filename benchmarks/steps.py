"""Whole training steps of every residual, relative to those of the additive block: eager and
compiled, with kernels and without.

    python -m benchmarks.steps --out results/steps_h100.json              on a CUDA device
    python -m benchmarks.steps --only mhc --modes eager,kernels --slope   a part of it, per layer
    python -m benchmarks.steps --device cpu --out results/steps_cpu.json  on one thread of a CPU, at
                                                    the sizes of `python -m benchmarks.models`
    python -m benchmarks.steps --table5 --out results/steps_table5_h100.json
                                                    the models of E-MHC-Geo's table 5

A step is a forward pass, a backward pass and fused AdamW. The models take turns, one step each per
round. Each ratio is to the first model, the additive one, in the same run: eager over eager,
compiled over compiled.

On the device, activations are bfloat16 under autocast, and the median of the rounds counts. A row
has the first and the last decile of its times and of its ratios, and the device's clocks. With
--slope every model is measured at twice the layers too, and the differences give what one more
layer takes, without the network's two ends. Its deciles are the widest that those of both depths
allow. On the CPU, in float32, each round has its own order, and each process gives the median of
its rounds' ratios. Such medians differ by a few percent, even between a model and its own copy. So
several processes run one after another, and a row is the mean of their medians, with the half width
of its 95 % interval. The interval holds for that run: on a machine that shares its memory, another
hour may give another ratio.

The first model has two turns. `again` is the ratio of the second to the first, and so what two
equal contenders differ by. On the CPU it's a row of its own, of a copy of the model.

The backbone on the device has the streams of mHC's 27B model, for which the paper reports 6.7 %
more time: 2560 features at length 4096 and n = 4. Its MLP is dense, with 12288 hidden features in
place of a mixture of experts. The ratio depends on the work of a sublayer per byte of the state:
here a block multiplies by 121 million parameters per token. A narrower MLP makes every ratio
larger.

Compiling takes a minute or two per residual; `--modes eager,kernels` compiles nothing. On a device
the rows so far lie beside --out, in a file that ends in .partial.json, until the run ends.
"""

import argparse
import gc
import multiprocessing
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import mean, median

import torch
from torch import Tensor, nn

from benchmarks.command import add_output, check_output, require_cuda, rounded
from benchmarks.models import step_times, training_step
from benchmarks.timing import clocks, deciles, turns
from geolab import kernels
from geolab.models import Transformer, TransformerConfig
from geolab.residuals import REGISTRY
from studies.claims.configurations import EMHC, EMHC_STREAM
from studies.engine.results import interval, record

# mode -> the argument of `kernels.use`, and whether the model is compiled
MODES = {"eager": ("never", False), "kernels": ("auto", False), "compiled": ("never", True),
         "compiled-kernels": ("auto", True)}
SIZES = {"cuda": {"width": 2560, "layers": 4, "heads": 20, "hidden": 12288, "batch": 2,
                  "length": 4096, "repeats": 11},
         "cpu": {"width": 128, "layers": 4, "heads": 4, "hidden": 512, "batch": 16,
                 "length": 127, "repeats": 5}}
TABLE5 = EMHC | {"emhc-stream": EMHC_STREAM}
# the inputs' size; each model of the table has its own width, depth and heads
TABLE5_SIZE = {"width": 128, "batch": 64, "length": 127}
AGAIN = "again"  # the first model a second time
QUESTION = "training steps of every residual over those of the additive block"


class Run(nn.Module):
    """A model as it is trained in one of MODES. Inputs in bfloat16 run under autocast."""

    def __init__(self, model: nn.Module, mode: str):
        super().__init__()
        self.kernels, compiled = MODES[mode]
        self.model = torch.compile(model) if compiled else model

    def forward(self, x: Tensor) -> Tensor:
        with kernels.use(self.kernels), torch.autocast(x.device.type, torch.bfloat16,
                                                       enabled=x.dtype == torch.bfloat16):
            return self.model(x)


Makers = dict[str, Callable[[], nn.Module]]


def configuration(device: str, size: dict) -> TransformerConfig:
    """The backbone on this device."""
    make = TransformerConfig.ddl if device == "cuda" else TransformerConfig.benchmark
    return make(size["width"], size["layers"], size["heads"], hidden=size["hidden"],
                max_length=max(8, size["length"]))


def on_cpu(makers: Makers, modes: list[str], size: dict) -> list[dict]:
    """One row per model and mode, from size["processes"] processes one after another. A copy of the
    first model has a row, too.
    """
    runs, processes = [], size["processes"]
    first = next(iter(makers))
    makers = makers | {f"{first} {AGAIN}": makers[first]}
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for run in pool.imap(partial(_in_a_process, makers, modes, size), range(processes)):
            runs.append(run)
            print(f"{len(runs)} of {processes} processes", flush=True)
    rows = []
    for name, make in makers.items():
        model = make()
        for mode in modes:
            ratios = [run[name, mode] / run[first, mode] for run in runs]
            row = _row(name, mode, model)
            row["ms"] = rounded(1e3 * mean(run[name, mode] for run in runs))
            row["ratio"] = rounded(mean(ratios))
            row["half width"] = rounded(interval(ratios)[1])
            rows.append(row)
    return rows


def _in_a_process(makers: Makers, modes: list[str], size: dict,
                  seed: int) -> dict[tuple[str, str], float]:
    """Seconds of a step on one thread, by model and mode."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    runs = {(name, mode): Run(model, mode) for name, make in makers.items() for model in [make()]
            for mode in modes}
    x = torch.randn(size["batch"], size["length"], size["width"])
    seconds = step_times(list(runs.values()), x, size["repeats"])
    return dict(zip(runs, seconds, strict=True))


def on_cuda(makers: Makers, modes: list[str], size: dict,
            device: str = "cuda") -> Iterator[list[dict]]:
    """The rows of one model after the other, one per mode. Each takes turns with the first one."""
    # Dynamo counts the versions of the Transformer's forward, which all models share
    torch._dynamo.config.recompile_limit = 4 * len(REGISTRY)
    x = torch.randn(size["batch"], size["length"], size["width"], device=device).bfloat16()
    first = next(iter(makers))
    additive = makers[first]().to(device)
    plain = {(first, mode): training_step(Run(additive, mode), x) for mode in modes
             if mode in ("eager", "compiled")}
    for name, make in makers.items():
        yield _beside(plain, first, name, make().to(device), modes, x, size["repeats"])
        gc.collect()
        torch.cuda.empty_cache()


def _beside(plain: dict[tuple[str, str], Callable[[], None]], first: str, name: str,
            model: nn.Module, modes: list[str], x: Tensor, repeats: int) -> list[dict]:
    """The rows of one model, which takes turns with the first model's steps."""
    print(f"{name}: {sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
    steps, rows = dict(plain), {mode: _row(name, mode, model) for mode in modes}
    steps |= {(AGAIN, mode): step for (_, mode), step in plain.items()}
    for mode, row in rows.items():
        step = training_step(Run(model, mode), x)
        try:
            step()
            row["peak_bytes"] = _peak(step)
            steps[name, mode] = step
        except RuntimeError as problem:  # a model that can't be compiled or doesn't fit is a result
            row["failed"] = f"{type(problem).__name__}: {problem}".splitlines()[0][:300]
    at_work: dict[str, float] = {}
    times = turns(steps, repeats, meanwhile=lambda: at_work.update(clocks()))
    for mode, row in rows.items():
        if "failed" not in row:
            own, beside, again = (times[who] for who in (
                (name, mode), (first, against(mode)), (AGAIN, against(mode))))
            row |= {"ms": rounded(1e3 * median(own)),
                    "ratio": rounded(median(own) / median(beside)),
                    "ms_deciles": [rounded(1e3 * x) for x in deciles(own)],
                    "ratio_deciles": [rounded(x) for x in deciles(
                        [a / b for a, b in zip(own, beside, strict=True)])],
                    "again": rounded(median(again) / median(beside)), "clocks": at_work}
        print(line(row), flush=True)
    return list(rows.values())


def slopes(few: list[dict], many: list[dict]) -> list[dict]:
    """A row per model and mode of what one more layer takes: the differences between the rows at
    some layers and those at more of them, over those of the first model.

    A row's deciles are the lowest and the highest that the deciles of both depths allow.
    """
    def more(a: dict, b: dict) -> list[float]:
        """The difference, and its bounds."""
        (low, high), (lower, higher) = a["ms_deciles"], b["ms_deciles"]
        return [ms / (b["layers"] - a["layers"])
                for ms in (b["ms"] - a["ms"], lower - high, higher - low)]

    pairs = {(a["residual"], a["mode"]): (a, b) for a, b in zip(few, many, strict=True)
             if "ms" in a and "ms" in b}
    rows, first = [], few[0]["residual"]
    for (name, mode), (a, b) in pairs.items():
        if (first, against(mode)) in pairs:
            (ms, least, most), own = more(a, b), (first, against(mode)) == (name, mode)
            plain, low, high = more(*pairs[first, against(mode)])
            within = [1.0, 1.0] if own else [least / high, most / low if low > 0 else float("inf")]
            rows.append({
                "residual": name, "mode": mode, "layers": "one more",
                "parameters": (b["parameters"] - a["parameters"]) // (b["layers"] - a["layers"]),
                "ms": rounded(ms), "ms_deciles": [rounded(least), rounded(most)],
                "ratio": rounded(ms / plain), "ratio_deciles": list(map(rounded, within)),
                "again": max(a["again"], b["again"], key=lambda ratio: abs(ratio - 1))})
    return rows


def against(mode: str) -> str:
    """The mode of the first model by whose times a mode's are divided."""
    return "compiled" if MODES[mode][1] else "eager"


def _peak(step: Callable[[], None]) -> int:
    """The most bytes that a step allocates beside those allocated before it."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _row(name: str, mode: str, model: nn.Module) -> dict:
    return {"residual": name, "mode": mode,
            "parameters": sum(p.numel() for p in model.parameters())}


def line(row: dict) -> str:
    """One row of the printed table."""
    if "failed" in row:
        numbers = row["failed"]
    else:
        numbers = f"{row['ms']:>9.1f} ms  {row['ratio']:>6.3f}"
        numbers += (f" ± {row['half width']:.3f}" if "half width" in row else
                    " ({:.3f} to {:.3f}), again {again:.3f}".format(*row["ratio_deciles"], **row))
    peak = f"  {row['peak_bytes'] / 2**30:>6.1f} GiB" if "peak_bytes" in row else ""
    return f"{row['residual']:<16} {row['mode']:<17} {numbers}{peak}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    add_output(parser)
    parser.add_argument("--only", metavar="NAMES",
                        help="residuals, separated by commas (default all)")
    parser.add_argument("--modes", help=f"some of {', '.join(MODES)}, separated by commas "
                        "(default all; on the CPU eager)")
    for name in SIZES["cuda"]:
        parser.add_argument(f"--{name}", type=int,
                            help=f"default {SIZES['cuda'][name]}; {SIZES['cpu'][name]} on the CPU")
    parser.add_argument("--processes", type=int, default=6,
                        help="processes on the CPU, one after another (default %(default)s)")
    parser.add_argument("--slope", action="store_true",
                        help="on a device, measure at twice the layers too: what one more takes")
    parser.add_argument("--table5", action="store_true",
                        help="the models of E-MHC-Geo's table 5, at their own sizes, with batch 64 "
                             "and length 127")
    given = parser.parse_args(arguments)
    known = list(TABLE5 if given.table5 else REGISTRY)
    names = given.only.split(",") if given.only else known
    usual = list(MODES) if given.device == "cuda" else ["eager"]
    modes = given.modes.split(",") if given.modes else usual
    for kind, got, there in (("--only", names, known), ("--modes", modes, MODES)):
        if strange := [name for name in got if name not in there]:
            parser.error(f"{kind} must be among {', '.join(there)}, got {', '.join(strange)}")
    if given.slope and (given.device == "cpu" or given.table5):
        parser.error("--slope measures the backbone on a CUDA device, got "
                     + ("--table5" if given.table5 else "--device cpu"))
    if given.processes < 2:
        parser.error(f"--processes must be at least 2, got {given.processes}: a row has a spread")
    check_output(parser, given)
    if given.device == "cuda":
        require_cuda(parser, "--device cpu measures without one")
    if given.device == "cpu" and any(MODES[mode][0] == "auto" for mode in modes):
        parser.error(f"kernels need a CUDA device, got --device cpu with --modes {','.join(modes)}")
    size = {name: default if getattr(given, name) is None else getattr(given, name)
            for name, default in SIZES[given.device].items()}
    if given.table5:
        size = TABLE5_SIZE | {"repeats": size["repeats"]}
    modes = list(dict.fromkeys([against(mode) for mode in modes] + modes))
    rows: list[dict] = []

    def makers(size: dict) -> Makers:
        config = None if given.table5 else configuration(given.device, size)
        return {name: TABLE5[name].trunk if given.table5 else partial(Transformer, config, name)
                for name in dict.fromkeys([known[0], *names])}

    def write(path: Path, force: str = "") -> None:
        record(path, QUESTION,
               {"device": given.device, "size": size, "streams": 4, "rows": rows}, force=force)

    so_far = given.out and given.out.with_suffix(".partial.json")
    if given.device == "cuda":
        torch.manual_seed(0)
        by_depth: list[list[dict]] = []
        for factor in (1, 2)[:1 + given.slope]:
            # the models of table 5 have depths of their own
            deep = size if given.table5 else size | {"layers": factor * size["layers"]}
            by_depth.append([])
            for found in on_cuda(makers(deep), modes, deep):
                found = [row | ({"layers": deep["layers"]} if given.slope else {}) for row in found]
                by_depth[-1] += found
                rows += found
                if so_far:
                    write(so_far, "one residual more")
        if given.slope:
            rows += slopes(*by_depth)
            print("one layer more:", *map(line, rows[2 * len(by_depth[0]):]), sep="\n")
    else:
        torch.set_num_threads(1)  # as in each process, so that the file says it
        size |= {"processes": given.processes}
        rows = on_cpu(makers(size), modes, size)
        print("\n".join(map(line, rows)))
    if given.out:
        write(given.out, given.force)
        so_far.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
