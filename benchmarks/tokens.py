"""The steps in which a backbone decodes: one token of each sequence, with the keys and values of
the positions before it in a cache. Each residual stands beside the plain one.

    python -m benchmarks.tokens --out results/tokens_h100.json                  on a CUDA device
    python -m benchmarks.tokens --batch 64 --modes eager,kernels                a part of it
    python -m benchmarks.tokens --device cpu --out results/tokens_cpu.json      ratios, on a CPU

Every number of sequences has a file of its own, written when it is measured: tokens_h100.json makes
tokens_h100.batch-1.json and tokens_h100.batch-64.json. So after an interruption, --batch names what
is still to do.

The backbone is that of `benchmarks.steps`, without embedding and head, with one more token after
`--length` − 1 others. Norms, attention and MLP are bfloat16, as is the state. A residual's own
weights stay float32. Nothing else is recomputed, cast or batched between the steps of a mode, and
all run without gradients, so neighbouring sublayers join where their residuals do.

Before anything is timed, every mode decodes the last of a few tokens, and its output is compared
with that of the whole sequence at once, in float64. A residual that reads other positions has no
cache for them here: it misses, and stands in the table without a time.

On the device a mode is a CUDA graph of several steps, and the modes take turns. A row has the
median of its rounds and of its ratios to the plain residual, with their first and last decile, and
`again`: the ratio of the plain residual's second turn to its first. By so much two equal contenders
differ. On a CPU the ratios alone are kept.
"""

import argparse
import gc
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from pathlib import Path
from statistics import median

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.command import add_output, check_output, require_cuda, rounded
from benchmarks.steps import MODES, Makers, against
from benchmarks.timing import clocks, cpu_turns, deciles, recorded, turns
from geolab import kernels
from geolab.models import Transformer, TransformerConfig
from geolab.models.layers import Attention, angles
from geolab.residuals import REGISTRY
from studies.engine.results import record

SIZES = {"cuda": {"width": 2560, "layers": 4, "heads": 20, "hidden": 12288, "length": 4096,
                  "repeats": 31},
         "cpu": {"width": 128, "layers": 4, "heads": 4, "hidden": 512, "length": 128,
                 "repeats": 31}}
BATCHES = (1, 64)
STEPS = 8     # in a turn
CHECKED = 4   # tokens of the sequence with which outputs are compared
TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 3e-2}
QUESTION = "steps in which a backbone decodes, over those of the plain residual"


class Cached(nn.Module):
    """A causal attention that gets one position at a time and keeps the keys and values of all.

    Arguments:
        inner: the attention whose weights it has.
        kept: room for the keys and the values, (2, B, H, T, E). `at` is the position that comes
            next.
    """

    takes_views = takes_values = False

    def __init__(self, inner: Attention, kept: Tensor):
        super().__init__()
        self.inner, self.heads, self.kept, self.at = inner, inner.config.heads, kept, 0
        angle = angles(kept)
        self.cos, self.sin = angle.cos().to(kept.dtype), angle.sin().to(kept.dtype)

    def rotated(self, x: Tensor) -> Tensor:
        """(B, H, 1, E) of position `at`."""
        a, b = x.chunk(2, dim=-1)
        cos, sin = self.cos[self.at], self.sin[self.at]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)

    def forward(self, x: Tensor) -> Tensor:
        """(B, 1, D) -> (B, 1, D)."""
        B, _, D = x.shape
        qkv = F.linear(x, self.inner.qkv()).view(B, 1, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        q, k = self.inner.q_norm(self.rotated(q)), self.inner.k_norm(self.rotated(k))
        self.kept[0, :, :, self.at:self.at + 1], self.kept[1, :, :, self.at:self.at + 1] = k, v
        keys, values = self.kept[:, :, :, :self.at + 1]
        y = F.scaled_dot_product_attention(q, keys, values)
        return F.linear(y.transpose(1, 2).reshape(B, 1, D), self.inner.out())


class Decoder(nn.Module):
    """A backbone that decodes in one of `benchmarks.steps.MODES`: (B, 1, D) -> (B, 1, D).

    It shares the weights of `model`. What it keeps of earlier positions lies in `kept`.
    """

    def __init__(self, model: Transformer, mode: str, kept: Tensor):
        super().__init__()
        trunk = deepcopy(model, {id(p): p for p in model.parameters()})  # but not the parameters
        self.caches = []
        for layer, room in zip(trunk.layers[::2], kept, strict=True):
            layer.mix = Cached(layer.mix, room)
            self.caches.append(layer.mix)
        self.kernels, compiled = MODES[mode]
        self.trunk = torch.compile(trunk) if compiled else trunk

    @torch.no_grad()
    def forward(self, x: Tensor, at: int) -> Tensor:
        for cache in self.caches:
            cache.at = at
        with kernels.use(self.kernels):
            return self.trunk(x)


def configuration(size: dict) -> TransformerConfig:
    return TransformerConfig.ddl(size["width"], size["layers"], size["heads"],
                                 hidden=size["hidden"], max_length=max(8, size["length"]))


def room(config: TransformerConfig, batch: int, length: int, like: Tensor) -> Tensor:
    """The keys and values of so many positions: random numbers, (layers, 2, B, H, T, E)."""
    return torch.randn(config.layers, 2, batch, config.heads, length,
                       config.width // config.heads, device=like.device, dtype=like.dtype)


def lowered(model: Transformer, dtype: torch.dtype) -> Transformer:
    """The model with norms, attention and MLP in another dtype, and its residuals as they are."""
    for layer in model.layers:
        layer.norm.to(dtype)
        layer.mix.to(dtype)
    model.norm.to(dtype)
    return model


def error(model: Transformer, mode: str, x: Tensor) -> float:
    """‖got − wanted‖ / ‖wanted‖ of the last position of x (B, T, D), decoded in this mode."""
    kept = room(model.config, len(x), x.shape[1], x)
    with torch.no_grad(), kernels.use("never"):
        wanted = deepcopy(model).double()(x.double())[:, -1:]
    before = Decoder(model, "eager", kept)
    for t in range(x.shape[1] - 1):
        before(x[:, t:t + 1], t)
    got = Decoder(model, mode, kept)(x[:, -1:], x.shape[1] - 1).double()
    return ((got - wanted).norm() / wanted.norm()).item()


def decoding(decoder: Decoder, x: Tensor, at: int, steps: int) -> Callable[[], None]:
    """A function that makes so many steps of a decoder at this position; a graph on a device."""
    def run() -> None:
        for _ in range(steps):
            decoder(x, at)

    return recorded(run).replay if x.is_cuda else run


Runs = dict[tuple[str, str], Callable[[], None]]  # the turns of "plain", "again" or "own" by mode


def measure(makers: Makers, modes: list[str], batch: int, size: dict,
            device: str) -> Iterator[list[dict]]:
    """The rows of one model after the other, one per mode. Each takes turns with the first one."""
    torch._dynamo.config.recompile_limit = 4 * len(REGISTRY)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    x = torch.randn(batch, CHECKED, size["width"], device=device).to(dtype)
    first, *others = makers
    model = lowered(makers[first](), dtype).to(device)
    kept = room(model.config, batch, size["length"], x)  # all contenders write in the same place
    runs, rows = turns_of(model, [mode for mode in modes if mode == against(mode)], x, kept)
    if missed := [row for row in rows if "failed" in row]:
        raise RuntimeError(f"{first} must decode in every mode, got {missed}")
    plain = {(who, mode): run for who in ("plain", "again") for mode, run in runs.items()}
    for name in (first, *others):
        model = model if name == first else lowered(makers[name](), dtype).to(device)
        runs, rows = turns_of(model, modes, x, kept)
        compare(rows, plain | {("own", mode): run for mode, run in runs.items()}, x, size)
        rows = [{"residual": name} | row for row in rows]
        print(*map(line, rows), sep="\n", flush=True)
        yield rows
        del model, runs
        gc.collect()
        torch.cuda.empty_cache()  # nothing without a device


def turns_of(model: Transformer, modes: list[str], x: Tensor,
             kept: Tensor) -> tuple[dict[str, Callable[[], None]], list[dict]]:
    """The turn of every mode, and a row for it with its error, or with what failed."""
    runs, rows, at = {}, [], kept.shape[-2] - 1
    for mode in modes:
        row: dict = {"mode": mode, "parameters": sum(p.numel() for p in model.parameters())}
        rows.append(row)
        try:
            row["error"] = rounded(error(model, mode, x))
            if row["error"] > TOLERANCE[x.dtype]:
                row["failed"] = f"off by {row['error']:.2g} from the whole sequence at once"
            else:
                runs[mode] = decoding(Decoder(model, mode, kept), x[:, -1:], at, STEPS)
        # a residual that can't decode is a result, which the table shows
        except Exception as problem:
            row["failed"] = f"{type(problem).__name__}: {problem}".splitlines()[0][:300]
    return runs, rows


def compare(rows: list[dict], runs: Runs, x: Tensor, size: dict) -> None:
    """Add to each row what the clock says of its mode, while all `runs` take turns."""
    at_work: dict[str, float] = {}
    clock = partial(turns, meanwhile=lambda: at_work.update(clocks())) if x.is_cuda else cpu_turns
    times = clock(runs, size["repeats"])
    for row in rows:
        if "failed" in row:
            continue
        own, plain, again = (times[who, mode] for who, mode in (
            ("own", row["mode"]), ("plain", against(row["mode"])), ("again", against(row["mode"]))))
        row |= ratios("ratio", own, plain) | ratios("again", again, plain)
        if x.is_cuda:
            each = [seconds / STEPS for seconds in own]
            row |= {"us": rounded(1e6 * median(each)),
                    "us_deciles": [rounded(1e6 * second) for second in deciles(each)],
                    "tokens_per_second": rounded(len(x) / median(each)), "clocks": at_work}


def ratios(what: str, own: list[float], beside: list[float]) -> dict:
    """The median ratio of two contenders' seconds in the same rounds, and its deciles."""
    each = [a / b for a, b in zip(own, beside, strict=True)]
    return {what: rounded(median(each)), f"{what}_deciles": [rounded(x) for x in deciles(each)]}


def line(row: dict) -> str:
    """One row of the printed table."""
    head = f"{row['residual']:<16} {row['mode']:<17} "
    if "failed" in row:
        return head + row["failed"][:90]
    low, high = row["ratio_deciles"]
    speed = (f"  {row['tokens_per_second']:>9.0f} tokens/s {row['us']:>8.1f} µs"
             if "us" in row else "")
    return head + (f"{row['ratio']:>6.3f} ({low:.3f} to {high:.3f}), again {row['again']:.3f}, "
                   f"off {row['error']:.1e}{speed}")


def file_of(out: Path, batch: int) -> Path:
    """The file of a number of sequences: tokens.json -> tokens.batch-64.json."""
    return out.with_suffix(f".batch-{batch}{out.suffix}")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tokens", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    add_output(parser)
    parser.add_argument("--only", metavar="NAMES", default="mhc",
                        help="residuals beside the plain one, separated by commas "
                             "(default %(default)s)")
    parser.add_argument("--modes", help=f"some of {', '.join(MODES)}, separated by commas "
                        "(default all; on the CPU eager)")
    parser.add_argument("--batch", type=int, nargs="+", default=list(BATCHES),
                        help="sequences that are decoded at once (default %(default)s)")
    for name in SIZES["cuda"]:
        parser.add_argument(f"--{name}", type=int,
                            help=f"default {SIZES['cuda'][name]}; {SIZES['cpu'][name]} on the CPU")
    given = parser.parse_args(arguments)
    names = given.only.split(",")
    modes = (given.modes or (",".join(MODES) if given.device == "cuda" else "eager")).split(",")
    for kind, got, there in (("--only", names, REGISTRY), ("--modes", modes, MODES)):
        if strange := [name for name in got if name not in there]:
            parser.error(f"{kind} must be among {', '.join(there)}, got {', '.join(strange)}")
    size = {name: default if getattr(given, name) is None else getattr(given, name)
            for name, default in SIZES[given.device].items()}
    if min(*given.batch, *size.values()) < 1:
        parser.error(f"--batch and all sizes must be at least 1, got {given.batch} and {size}")
    files = {batch: file_of(given.out, batch) for batch in given.batch} if given.out else {}
    for path in files.values():
        check_output(parser, argparse.Namespace(out=path, force=given.force))
    if given.device == "cuda":
        require_cuda(parser, "--device cpu measures ratios without one")
    elif any(MODES[mode][0] == "auto" for mode in modes):
        parser.error(f"kernels need a CUDA device, got --device cpu with --modes {','.join(modes)}")
    else:
        torch.set_num_threads(1)
    modes = list(dict.fromkeys([against(mode) for mode in modes] + modes))
    config = configuration(size)
    makers = {name: partial(Transformer, config, name)
              for name in dict.fromkeys(["additive", *names])}
    for batch in given.batch:
        torch.manual_seed(0)
        print(f"{batch} at once")
        rows = [row for found in measure(makers, modes, batch, size, given.device)
                for row in found]
        if given.out:
            record(files[batch], QUESTION, {"device": given.device, "batch": batch, "size": size,
                                            "streams": 4, "rows": rows}, force=given.force)


if __name__ == "__main__":
    main()
