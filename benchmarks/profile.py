"""One training step of a residual, taken apart: the time of each kernel, which add up to the step.

    python -m benchmarks.profile --residual mhc --out results/profile_h100.mhc.json    on a GPU
    python -m benchmarks.profile --residual mhc --device cpu --width 64 --length 32    operations

PyTorch's profiler notes every kernel of a step, or every operation on a CPU. A row is one of them:
how often it runs in a step, its microseconds in a step, and their share of the step. The step is
timed again without the profiler. `idle` is the rest of it: time in which no kernel runs, because
the host is late or a launch takes its time. A negative rest is what the profiler itself costs.
"""

import argparse
from collections.abc import Callable, Iterable
from statistics import median
from time import perf_counter
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.command import add_output, check_output, require_cuda, rounded
from benchmarks.models import training_step
from benchmarks.steps import MODES, SIZES, Run, configuration
from benchmarks.timing import turns
from geolab.models import Transformer
from geolab.residuals import REGISTRY
from studies.engine.results import record

STEPS = 5  # that are profiled
QUESTION = "where the time of a training step goes"


def seconds_of(step: Callable[[], None], device: str, repeats: int) -> float:
    """The median seconds of a step."""
    if device == "cuda":
        return median(turns({"step": step}, repeats)["step"])
    found = []
    for _ in range(repeats):
        before = perf_counter()
        step()
        found.append(perf_counter() - before)
    return median(found)


def rows_of(events: Iterable[Any], device: str, seconds: float) -> list[dict]:
    """A row per kernel or operation of one step, the longest first, and the rest as `idle`.

    Arguments:
        events: what the profiler averaged over STEPS steps.
        seconds: those of a step.
    """
    kind = torch.autograd.DeviceType.CUDA if device == "cuda" else torch.autograd.DeviceType.CPU
    time = "self_device_time_total" if device == "cuda" else "self_cpu_time_total"
    found = [(event.key, event.count / STEPS, getattr(event, time) / STEPS) for event in events
             if event.device_type == kind and getattr(event, time)]
    found.append(("idle", 0, 1e6 * seconds - sum(us for *_, us in found)))
    return [{"kernel": name[:200], "runs": rounded(runs), "us": rounded(us),
             "share": rounded(us / seconds / 1e6)}
            for name, runs, us in sorted(found, key=lambda row: -row[2])]


def measure(residual: str, mode: str, size: dict, device: str) -> dict:
    """The profile of a residual's training step in one of `benchmarks.steps.MODES`."""
    torch.manual_seed(0)
    model = Transformer(configuration(device, size), residual).to(device)
    x = torch.randn(size["batch"], size["length"], size["width"], device=device)
    step = training_step(Run(model, mode), x.bfloat16() if device == "cuda" else x)
    for _ in range(3):  # compiling and the optimizer's memory
        step()
    seconds = seconds_of(step, device, size["repeats"])
    with profile(activities=[ProfilerActivity.CUDA if device == "cuda" else ProfilerActivity.CPU],
                 acc_events=True) as seen:
        for _ in range(STEPS):
            step()
        if device == "cuda":
            torch.cuda.synchronize()
    return {"residual": residual, "mode": mode, "size": size, "device": device,
            "step_us": rounded(1e6 * seconds),
            "rows": rows_of(seen.key_averages(), device, seconds)}


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
    print(f"{found['step_us']:>12.1f} µs a step")
    if given.out:
        record(given.out, QUESTION, found, force=given.force)


if __name__ == "__main__":
    main()
