"""One training step of a residual, taken apart: the time of each kernel, which add up to the step.

    python -m benchmarks.profile --residual mhc --out results/profile_h100.mhc.json    on a GPU
    python -m benchmarks.profile --residual mhc --device cpu --width 64 --length 32    operations

PyTorch's profiler notes every kernel of a step, or every operation on a CPU. A row is one of them:
how often it runs in a step, its microseconds in a step, their lowest and highest in the steps that
are profiled, and their share of the step. The step is timed without the profiler, in two turns:
`again` is the ratio of the second to the first. `idle` is the rest of the step: time in which no
kernel runs, because the host is late or a launch takes its time. A negative rest is what the
profiler itself costs.
"""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from statistics import mean, median
from time import perf_counter
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.command import add_output, check_output, require_cuda, rounded
from benchmarks.models import training_step
from benchmarks.steps import MODES, SIZES, Run, configuration
from benchmarks.timing import cpu_turns, deciles, turns
from geolab.models import Transformer
from geolab.residuals import REGISTRY
from studies.engine.results import record

STEPS = 5  # that are profiled
QUESTION = "where the time of a training step goes"


def timed(step: Callable[[], None], device: str, repeats: int) -> dict:
    """The median µs of a step with their deciles, and the ratio of a second turn to the first."""
    clock = turns if device == "cuda" else partial(cpu_turns, clock=perf_counter)
    found = clock({"step": step, "again": step}, repeats)
    return {"step_us": rounded(1e6 * median(found["step"])),
            "step_us_deciles": [rounded(1e6 * x) for x in deciles(found["step"])],
            "again": rounded(median(found["again"]) / median(found["step"]))}


def rows_of(steps: list[Iterable[Any]], device: str, step_us: float) -> list[dict]:
    """A row per kernel or operation of a step, the longest first, and the rest as `idle`.

    Arguments:
        steps: what the profiler added up, for each profiled step.
        step_us: the time of a step.
    """
    kind = torch.autograd.DeviceType.CUDA if device == "cuda" else torch.autograd.DeviceType.CPU
    time = "self_device_time_total" if device == "cuda" else "self_cpu_time_total"
    runs, us = defaultdict(float), defaultdict(lambda: [0.0] * len(steps))
    for place, events in enumerate(steps):
        for event in events:
            if event.device_type == kind and getattr(event, time):
                runs[event.key] += event.count / len(steps)
                us[event.key][place] += getattr(event, time)
    us["idle"] = [step_us - sum(each) for each in zip(*us.values(), strict=True)]
    return [{"kernel": name[:200], "runs": rounded(runs[name]), "us": rounded(mean(each)),
             "us_low": rounded(min(each)), "us_high": rounded(max(each)),
             "share": rounded(mean(each) / step_us)}
            for name, each in sorted(us.items(), key=lambda row: -mean(row[1]))]


def profiled(step: Callable[[], None], device: str) -> Iterable[Any]:
    """The times of one step that the profiler adds up, by kernel or operation."""
    kind = ProfilerActivity.CUDA if device == "cuda" else ProfilerActivity.CPU
    with profile(activities=[kind], acc_events=True) as seen:
        step()
        if device == "cuda":
            torch.cuda.synchronize()
    return seen.key_averages()


def measure(residual: str, mode: str, size: dict, device: str) -> dict:
    """The profile of a residual's training step in one of `benchmarks.steps.MODES`."""
    torch.manual_seed(0)
    model = Transformer(configuration(device, size), residual).to(device)
    x = torch.randn(size["batch"], size["length"], size["width"], device=device)
    step = training_step(Run(model, mode), x.bfloat16() if device == "cuda" else x)
    for _ in range(3):  # compiling and the optimizer's memory
        step()
    found = timed(step, device, size["repeats"])
    steps = [profiled(step, device) for _ in range(STEPS)]
    return {"residual": residual, "mode": mode, "size": size, "device": device, **found,
            "rows": rows_of(steps, device, found["step_us"])}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--residual", choices=REGISTRY, default="mhc", metavar="NAME")
    parser.add_argument("--mode", choices=MODES, help="default kernels; eager on a CPU")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    for name in SIZES["cuda"]:
        parser.add_argument(f"--{name}", type=int, help=f"default {SIZES['cuda'][name]}; "
                                                        f"{SIZES['cpu'][name]} on the CPU")
    add_output(parser)
    given = parser.parse_args(arguments)
    check_output(parser, given)
    if given.device == "cuda":
        require_cuda(parser, "--device cpu profiles operations without one")
    size = {name: default if getattr(given, name) is None else getattr(given, name)
            for name, default in SIZES[given.device].items()}
    found = measure(given.residual, given.mode or ("kernels" if given.device == "cuda" else
                                                   "eager"), size, given.device)
    for row in found["rows"][:30]:
        print(f"{row['us']:>12.1f} µs {row['share']:>6.1%} {row['runs']:>7.3g} ×  "
              f"{row['kernel'][:90]}")
    print(f"{found['step_us']:>12.1f} µs a step, again {found['again']:.3f}")
    if given.out:
        record(given.out, QUESTION, found, force=given.force)


if __name__ == "__main__":
    main()
