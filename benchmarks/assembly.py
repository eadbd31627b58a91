"""What the compiler makes of each kernel for a GPU, on a machine without one: registers, spills,
and the width of its loads and stores.

    python -m benchmarks.assembly --out results/assembly.json   every kernel, at the benchmark's d
    python -m benchmarks.assembly stream_read --capability 80   one operator, for another capability

The public functions run on CPU tensors of the right shapes. Their launches are caught before they
reach a device, and each kernel is compiled for the arguments that it would have got.
"""

import argparse
import re
import subprocess
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import patch

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import __file__ as nvidia
from triton.compiler import ASTSource

from benchmarks.cases import CASES, SIZES, STREAMS, Case, draws
from benchmarks.command import add_output, check_output
from benchmarks.timing import cotangents_of, outputs_of
from geolab.kernels import launch
from geolab.kernels.twins import TWINS
from studies.results import record

# a kernel, its arguments by name, and options such as num_warps
Launch = tuple[triton.JITFunction, dict, dict]

QUESTION = "what the compiler makes of each kernel"
WIDTHS = {".128": 16, ".64": 8, "16": 2, "8": 1}  # bytes of a load by its modifier; 4 without one


def launches(run: Callable[[], object]) -> list[Launch]:
    """The launches that `run` asks for on CPU tensors. None of them takes place."""
    caught = []

    def catch(kernel, *args, grid, warmup, **options):
        names = [p.name for p in kernel.params]
        by_name = {name: options.pop(name) for name in names if name in options}
        caught.append((kernel, dict(zip(names, args, strict=False)) | by_name, options))

    with (patch.object(triton.JITFunction, "run", catch),
          patch.object(launch, "INTERPRETED", True)):
        run()
    return caught


def compiled(kernel: triton.JITFunction, given: dict, options: dict, capability: int = 90):
    """The kernel, compiled for these arguments as a launch would compile it."""
    signature, constants, attributes = {}, {}, {}
    for place, parameter in enumerate(kernel.params):
        value = given[parameter.name]
        if parameter.is_constexpr:
            signature[parameter.name], constants[parameter.name] = "constexpr", value
        elif isinstance(value, torch.Tensor):
            dtype = str(value.dtype).removeprefix("torch.")
            signature[parameter.name] = "*" + triton.runtime.jit.type_canonicalisation_dict[dtype]
            # PyTorch's allocations begin at multiples of 512 bytes
            attributes[place,] = [["tt.divisibility", 16]]
        else:
            signature[parameter.name] = "fp32" if isinstance(value, float) else "i32"
            if not (parameter.do_not_specialize or isinstance(value, float) or value % 16):
                attributes[place,] = [["tt.divisibility", 16]]
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def report(kernel: triton.JITFunction, given: dict, options: dict, capability: int = 90) -> dict:
    """Registers per thread, bytes of stack (spills), bytes of shared memory, warps, and how many
    global loads and stores there are of each width in bytes.
    """
    binary = compiled(kernel, given, options, capability)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary.asm["cubin"])
        file.flush()
        tool = Path(nvidia).parent / "bin" / "cuobjdump"
        usage = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True,
                               check=True).stdout
        sass = subprocess.run([tool, "-sass", file.name], capture_output=True, text=True,
                              check=True).stdout
    numbers = {name: int(re.search(rf"{name}:(\d+)", usage).group(1)) for name in ("REG", "STACK")}
    widths = Counter()
    # LDGSTS loads from global into shared memory
    for kind, modifiers in re.findall(r"\b(LDG|STG)(?:STS)?\.E((?:\.\w+)*)", sass):
        width = next((bytes_ for mark, bytes_ in WIDTHS.items() if mark in modifiers), 4)
        widths[kind, width] += 1
    return {"kernel": kernel.fn.__name__, "registers": numbers["REG"], "stack": numbers["STACK"],
            "shared": binary.metadata.shared, "warps": binary.metadata.num_warps,
            "loads": {w: c for (k, w), c in sorted(widths.items()) if k == "LDG"},
            "stores": {w: c for (k, w), c in sorted(widths.items()) if k == "STG"}}


def passes(case: Case, d: int, tokens: int = 64) -> list[Launch]:
    """The launches of a case, forward and backward, with its state in bfloat16.

    No kernel is compiled for a fixed number of tokens, so that `tokens` doesn't matter.
    """
    def run():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nothing is computed, so the numbers mean nothing
            outputs = outputs_of(kernel, inputs)
            torch.autograd.grad(outputs, inputs, cotangents_of(outputs))

    kernel = partial(TWINS[case.twin], **case.options)
    dtype = torch.bfloat16 if case.kind == "state" else torch.float32
    drawn = case.inputs(tokens, STREAMS, d, *draws("cpu", dtype, seed=0))
    inputs = tuple(x.detach().requires_grad_() for x in drawn)
    return launches(run)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.assembly", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", metavar="NAME",
                        help=f"operators to compile (default all of {'; '.join(CASES)})")
    parser.add_argument("--features", type=int,
                        help="features d per stream (default the benchmark's)")
    parser.add_argument("--capability", type=int, default=90,
                        help="the GPU's compute capability, times ten (default %(default)s)")
    add_output(parser)
    given = parser.parse_args(arguments)
    if strange := [name for name in given.only if name not in CASES]:
        parser.error(f"NAME must be one of {'; '.join(CASES)}, got {strange[0]!r}")
    check_output(parser, given)
    print(f"{'operator':<22} {'d':>5}  {'kernel':<28} {'registers':>9} {'stack':>5} {'shared':>7} "
          f"{'warps':>5}  loads and stores: bytes × times")
    rows = []
    for name, case in CASES.items():
        if not given.only or name in given.only:
            for d in dict.fromkeys(given.features or d for _, d in SIZES[case.kind]):
                for launch_ in passes(case, d):
                    row = {"operator": name, "d": d} | report(*launch_, given.capability)
                    rows.append(row)
                    wide = ["  ".join(f"{width} × {times}" for width, times in row[side].items())
                            for side in ("loads", "stores")]
                    print(f"{name:<22} {d:>5}  {row['kernel']:<28} {row['registers']:>9} "
                          f"{row['stack']:>5} {row['shared']:>7} {row['warps']:>5}  "
                          + " | ".join(wide), flush=True)
    if given.out:
        record(given.out, QUESTION,
               {"device": "none", "capability": given.capability, "n": STREAMS, "rows": rows},
               force=given.force)


if __name__ == "__main__":
    main()
