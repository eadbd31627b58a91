"""Whole training steps: every residual over the additive block, eager and compiled, with kernels and without.

    python -m benchmarks.steps --out results/steps_h200.json             a CUDA device
    python -m benchmarks.steps --only mhc --modes eager,kernels          some of it
    python -m benchmarks.steps --device cpu --out results/steps_cpu.json one thread of a CPU, at the sizes of `python -m geolab.models`

A step is forward, backward and fused AdamW. The models take turns, one step each a round, and each ratio is to the additive block in the
same run: eager over eager, compiled over compiled. On the device the median counts and activations are bfloat16 under autocast; on the
CPU each model's fastest step counts, in float32.

The backbone on the device has the streams of mHC's 27B model, for which the paper reports 6.7 % more time: 2560 features at length
4096 and n = 4. Its MLP is dense, with 12288 hidden features in place of a mixture of experts. What matters to the ratio is the work of a
sublayer for each byte of the state: here a block multiplies by 121 million parameters a token. A narrower MLP makes every ratio larger.

Compiling takes a minute or two a residual; `--modes eager,kernels` does without.
"""

import argparse
import gc
from pathlib import Path
from statistics import median

import torch
from torch import Tensor, nn

from benchmarks.timing import turns
from geolab import kernels
from geolab.results import record
from geolab.models import Transformer, TransformerConfig
from geolab.models.__main__ import step_times, training_step
from geolab.residuals import REGISTRY

MODES = {"eager": ("never", False), "kernels": ("auto", False), "compiled": ("never", True), "compiled-kernels": ("auto", True)}
SIZES = {"cuda": {"width": 2560, "layers": 4, "heads": 20, "hidden": 12288, "batch": 2, "length": 4096, "repeats": 11},
         "cpu": {"width": 128, "layers": 4, "heads": 4, "hidden": 512, "batch": 16, "length": 127, "repeats": 5}}
EXPERIMENT = "training steps of every residual over those of the additive block"


class Run(nn.Module):
    """A model as it is trained in one of MODES; on bfloat16 inputs under autocast."""

    def __init__(self, model: nn.Module, mode: str):
        super().__init__()
        self.kernels, compiled = MODES[mode]
        self.model = torch.compile(model) if compiled else model

    def forward(self, x: Tensor) -> Tensor:
        with kernels.use(self.kernels), torch.autocast(x.device.type, torch.bfloat16, enabled=x.dtype == torch.bfloat16):
            return self.model(x)


def configuration(device: str, size: dict) -> TransformerConfig:
    make = TransformerConfig.ddl if device == "cuda" else TransformerConfig.benchmark
    return make(size["width"], size["layers"], size["heads"], hidden=size["hidden"], max_length=max(8, size["length"]))


def on_cpu(names: list[str], modes: list[str], config: TransformerConfig, size: dict) -> list[dict]:
    """A row a residual and mode."""
    models = {name: Transformer(config, name) for name in names}
    runs = [(name, mode, Run(models[name], mode)) for name in names for mode in modes]
    seconds = step_times([run for _, _, run in runs], torch.randn(size["batch"], size["length"], config.width), size["repeats"])
    return [_row(name, mode, models[name], time) for (name, mode, _), time in zip(runs, seconds)]


def on_cuda(names: list[str], modes: list[str], config: TransformerConfig, size: dict, device: str = "cuda") -> list[dict]:
    """A row a residual and mode, each residual in turn with the additive block."""
    torch._dynamo.config.recompile_limit = 4 * len(REGISTRY)  # all models share the forward of the Transformer
    x = torch.randn(size["batch"], size["length"], config.width, device=device).bfloat16()
    additive, rows = Transformer(config).to(device), []
    plain = {mode: training_step(Run(additive, mode), x) for mode in modes if mode in ("eager", "compiled")}
    for name in names:
        model = Transformer(config, name).to(device)
        print(f"{name}: {sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
        steps, mine = {("additive", mode): step for mode, step in plain.items()}, {}
        for mode in modes:
            mine[mode] = _row(name, mode, model)
            step = training_step(Run(model, mode), x)
            try:
                step()
                mine[mode]["peak_bytes"] = _peak(step)
                steps[name, mode] = step
            except (RuntimeError, torch._dynamo.exc.TorchDynamoException) as problem:  # what can't be compiled, or doesn't fit, is a result
                mine[mode]["failed"] = f"{type(problem).__name__}: {problem}".splitlines()[0][:300]
        times = {key: median(seconds) for key, seconds in turns(steps, size["repeats"]).items()}
        for mode, row in mine.items():
            if "failed" not in row:
                row["ms"] = _digits(1e3 * times[name, mode])
                row["ratio"] = _digits(times[name, mode] / times["additive", _against(mode)])
            rows.append(row)
            print(line(row), flush=True)
        del steps, step, model
        gc.collect()
        torch.cuda.empty_cache()
    return rows


def _against(mode: str) -> str:
    return "compiled" if MODES[mode][1] else "eager"


def _peak(step) -> int:
    """The most bytes allocated above those before a step."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def _row(name: str, mode: str, model: nn.Module, seconds: float | None = None) -> dict:
    row = {"residual": name, "mode": mode, "parameters": sum(p.numel() for p in model.parameters())}
    return row if seconds is None else row | {"ms": _digits(1e3 * seconds)}


def _digits(number: float) -> float:
    return float(f"{number:.4g}")


def line(row: dict) -> str:
    numbers = row.get("failed") or f"{row['ms']:>9.1f} ms  {row['ratio']:>6.3f}"
    return f"{row['residual']:<16} {row['mode']:<17} {numbers}" + (f"  {row['peak_bytes'] / 2**30:>6.1f} GiB" if "peak_bytes" in row else "")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--out", type=Path, help="a JSON file to write, with where it was measured")
    parser.add_argument("--force", action="store_true", help="write over it")
    parser.add_argument("--only", metavar="NAMES", help="residuals, with commas (default all)")
    parser.add_argument("--modes", help=f"with commas, of {', '.join(MODES)} (default all; eager on the CPU)")
    for name in SIZES["cuda"]:
        parser.add_argument(f"--{name}", type=int, help=f"default {SIZES['cuda'][name]}; {SIZES['cpu'][name]} on the CPU")
    given = parser.parse_args(arguments)
    names = given.only.split(",") if given.only else list(REGISTRY)
    modes = given.modes.split(",") if given.modes else list(MODES) if given.device == "cuda" else ["eager"]
    for kind, got, known in (("--only", names, REGISTRY), ("--modes", modes, MODES)):
        if strange := [name for name in got if name not in known]:
            parser.error(f"{kind} must be among {', '.join(known)}, got {', '.join(strange)}")
    if given.out and given.out.exists() and not given.force:
        parser.error(f"{given.out} exists; --force writes over it")
    if given.device == "cuda" and not (torch.cuda.is_available() and kernels.TWINS):
        parser.error("this needs a CUDA device with Triton: " +
                     ("Triton isn't installed" if torch.cuda.is_available() else "PyTorch sees none; --device cpu measures without one"))
    if given.device == "cpu" and any(MODES[mode][0] == "auto" for mode in modes):
        parser.error(f"kernels need a CUDA device, got --device cpu with --modes {','.join(modes)}")
    size = {name: default if getattr(given, name) is None else getattr(given, name) for name, default in SIZES[given.device].items()}
    modes = list(dict.fromkeys([_against(mode) for mode in modes] + modes))
    torch.manual_seed(0)
    config = configuration(given.device, size)
    if given.device == "cuda":
        rows = on_cuda(names, modes, config, size)
    else:
        torch.set_num_threads(1)
        rows = on_cpu(list(dict.fromkeys(["additive", *names])), modes, config, size)
        times = {row["mode"]: row["ms"] for row in rows if row["residual"] == "additive"}
        for row in rows:
            row["ratio"] = _digits(row["ms"] / times[row["mode"]])
            print(line(row))
    if given.out:
        given.out.unlink(missing_ok=True)
        record(given.out, EXPERIMENT, {"device": given.device, "size": size, "streams": 4, "rows": rows})


if __name__ == "__main__":
    main()
