"""The compiler's results for each kernel on a GPU, without having one: registers, spills,
the programs that run at once, the bytes that a launch is given, the width of its loads and stores,
and its products on matrix units.

    python -m benchmarks.assembly --out results/assembly.json   every kernel, at the benchmark sizes
    python -m benchmarks.assembly stream_read --capability 80   one operator, for another capability

The public functions run on CPU tensors of the right shapes, which hold nothing. Their launches are
caught before they reach a device, and each kernel is compiled for the arguments that it would have
got.
"""

import argparse
import re
import subprocess
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from math import prod
from pathlib import Path
from unittest.mock import patch

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import __file__ as nvidia
from triton.compiler import ASTSource

from benchmarks.cases import CASES, SIZES, STREAMS, Case
from benchmarks.command import add_output, check_output, rounded
from benchmarks.timing import outputs_of
from geolab import kernels
from geolab.kernels import every_twin, launch
from studies.engine.results import record

# a kernel, its programs, its arguments by name, and options such as num_warps
Launch = tuple[triton.JITFunction, int, dict, dict]

QUESTION = "what the compiler makes of each kernel"
WIDTHS = {".128": 16, ".64": 8, "16": 2, "8": 1}  # bytes of a load by its modifier; 4 without one
# in PTX, a product on matrix units, and the format of its operands
PRODUCT = re.compile(r"mma\S*\.(bf16|f16|tf32)\.\1\b")
INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+[^.\s]", re.M)  # a line of a kernel's code
# compute capability times ten -> multiprocessors of an A100, or of an H100 and an H200, and the
# bytes of shared memory of each
DEVICES = {80: (108, 164 * 2**10), 90: (132, 228 * 2**10), 100: (148, 228 * 2**10)}


def launches(run: Callable[[], object]) -> list[Launch]:
    """Record the launches that `run` asks for on CPU tensors. None of them takes place."""
    caught = []

    def catch(kernel, *args, grid, warmup, **options):
        names = [p.name for p in kernel.params]
        by_name = {name: options.pop(name) for name in names if name in options}
        caught.append((kernel, prod(grid), dict(zip(names, args, strict=False)) | by_name,
                       options))

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


def resident(registers: int, shared: int, warps: int, capability: int = 90) -> int:
    """Return the number of programs that fit on a multiprocessor at once.

    It has 65,536 registers, given out in eights per thread, and room for 64 warps and 32 programs.
    Each program takes a kilobyte of shared memory besides its own.
    """
    threads = 32 * warps
    return min(65536 // (threads * -(-registers // 8) * 8), 64 // warps, 32,
               DEVICES[capability][1] // (shared + 1024))


def report(kernel: triton.JITFunction, programs: int, given: dict, options: dict,
           capability: int = 90) -> dict:
    """Registers per thread, bytes of stack (spills), bytes of shared memory, warps and programs.

    `resident` programs run on a multiprocessor at once, and the programs fill the device `waves`
    times. `bytes` counts each tensor of the launch once, and `instructions` each line of the code
    once. Other entries count the global loads and stores by width in bytes, the products on matrix
    units by format, and the numbers that are rounded to tf32 for them.
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
    warps, shared = binary.metadata.num_warps, binary.metadata.shared
    at_once = resident(numbers["REG"], shared, warps, capability)
    if not at_once:
        raise ValueError(f"a multiprocessor hasn't {shared} bytes of shared memory")
    tensors = {t.data_ptr(): t.nbytes for t in given.values() if isinstance(t, torch.Tensor)}
    return {"kernel": kernel.fn.__name__, "registers": numbers["REG"], "stack": numbers["STACK"],
            "shared": shared, "warps": warps, "programs": programs, "resident": at_once,
            "waves": rounded(programs / at_once / DEVICES[capability][0]),
            "bytes": sum(tensors.values()), "instructions": len(INSTRUCTION.findall(sass)),
            "products": dict(sorted(Counter(PRODUCT.findall(binary.asm["ptx"])).items())),
            "rounded": binary.asm["ptx"].count("cvt.rna.tf32"),
            "loads": {w: c for (k, w), c in sorted(widths.items()) if k == "LDG"},
            "stores": {w: c for (k, w), c in sorted(widths.items()) if k == "STG"}}


def passes(case: Case, N: int, d: int, dtype: torch.dtype = torch.bfloat16,
           n: int = STREAMS) -> list[Launch]:
    """The launches of a case, forward and backward, with its state in this dtype."""
    def run():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nothing is computed, so the numbers mean nothing
            outputs = outputs_of(case.function, inputs)
            torch.autograd.grad(outputs, inputs, [torch.empty_like(y) for y in outputs])

    drawn = case.inputs(N, n, d, lambda *shape: torch.empty(shape, dtype=dtype),
                        lambda *shape: torch.empty(shape))
    inputs = tuple(x.detach().requires_grad_() for x in drawn)
    with patch.dict(kernels.TWINS, every_twin()), kernels.use("always"):
        return launches(run)


def line(row: dict) -> str:
    """One row of the printed table."""
    wide = ["  ".join(f"{width} × {times}" for width, times in row[side].items())
            for side in ("loads", "stores")]
    return (f"{row['operator']:<22} {row['N']:>5} {row['d']:>4}  {row['kernel']:<22} "
            f"{row['registers']:>9} {row['stack']:>5} {row['shared']:>6} {row['warps']:>5} "
            f"{row['programs']:>8} {row['resident']:>8} {row['waves']:>6.3g} "
            f"{row['bytes'] / 1e6:>6.1f}  " + " | ".join(wide))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.assembly", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", metavar="NAME",
                        help=f"operators to compile (default all of {'; '.join(CASES)})")
    parser.add_argument("--features", type=int,
                        help="features d per stream (default the benchmark's)")
    parser.add_argument("--streams", type=int, default=STREAMS, help="n (default %(default)s)")
    parser.add_argument("--dtype", choices=("bfloat16", "float16", "float32"), default="bfloat16",
                        help="the state's (default %(default)s)")
    parser.add_argument("--capability", type=int, choices=DEVICES, default=90,
                        help="the GPU's compute capability, times ten (default %(default)s)")
    add_output(parser)
    given = parser.parse_args(arguments)
    if strange := [name for name in given.only if name not in CASES]:
        parser.error(f"NAME must be one of {'; '.join(CASES)}, got {strange[0]!r}")
    check_output(parser, given)
    print(f"{'operator':<22} {'N':>5} {'d':>4}  {'kernel':<22} {'registers':>9} {'stack':>5} "
          f"{'shared':>6} {'warps':>5} {'programs':>8} {'resident':>8} {'waves':>6} {'MB':>6}  "
          "loads and stores: bytes × times")
    rows = []
    for name, case in CASES.items():
        if not given.only or name in given.only:
            sizes = SIZES[case.kind]
            for N, d in [(sizes[0][0], given.features)] if given.features else sizes:
                for launch_ in passes(case, N, d, getattr(torch, given.dtype), given.streams):
                    row = {"operator": name, "N": N, "d": d} | report(*launch_, given.capability)
                    rows.append(row)
                    print(line(row), flush=True)
    if given.out:
        record(given.out, QUESTION,
               {"device": "none", "capability": given.capability, "n": given.streams,
                "dtype": given.dtype, "rows": rows},
               force=given.force)


if __name__ == "__main__":
    main()
