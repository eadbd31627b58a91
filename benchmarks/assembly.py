"""What the compiler makes of each kernel for a GPU, on a machine without one: registers, spills, and how wide it loads.

    python -m benchmarks.assembly              every kernel, at the sizes of the benchmark, for compute capability 9.0
    python -m benchmarks.assembly read --sass  those whose name contains "read", with the load and store instructions counted

Launches are caught before they reach a device: the public functions run on CPU tensors of the right shapes, and each kernel is
compiled for the arguments it would have had.
"""

import argparse
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import __file__ as nvidia
from triton.compiler import ASTSource

from geolab.kernels import launch

Launch = tuple[triton.JITFunction, dict, dict]  # kernel, its arguments by name, options such as num_warps


def launches(run: Callable[[], object]) -> list[Launch]:
    """The kernels that `run` would launch on CPU tensors; none is."""
    caught, original, interpreted = [], triton.JITFunction.run, launch.INTERPRETED

    def catch(kernel, *args, grid, warmup, **options):
        names = [p.name for p in kernel.params]
        given = dict(zip(names, args)) | {name: options.pop(name) for name in names if name in options}
        caught.append((kernel, given, options))

    triton.JITFunction.run, launch.INTERPRETED = catch, True
    try:
        run()
    finally:
        triton.JITFunction.run, launch.INTERPRETED = original, interpreted
    return caught


def compiled(kernel: triton.JITFunction, given: dict, options: dict, capability: int = 90):
    """The kernel compiled for these arguments, as a launch would."""
    signature, constants, attributes = {}, {}, {}
    for place, parameter in enumerate(kernel.params):
        value = given[parameter.name]
        if parameter.is_constexpr:
            signature[parameter.name], constants[parameter.name] = "constexpr", value
        elif isinstance(value, torch.Tensor):
            signature[parameter.name] = "*" + triton.runtime.jit.type_canonicalisation_dict[str(value.dtype).removeprefix("torch.")]
            attributes[place,] = [["tt.divisibility", 16]]  # what PyTorch allocates begins at a multiple of 512 bytes
        else:
            signature[parameter.name] = "fp32" if isinstance(value, float) else "i32"
            if not (parameter.do_not_specialize or isinstance(value, float) or value % 16):
                attributes[place,] = [["tt.divisibility", 16]]
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def report(kernel, given: dict, options: dict) -> dict:
    """Registers a thread, bytes of stack (spills), bytes of shared memory, and global loads and stores by width in bytes."""
    binary = compiled(kernel, given, options)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary.asm["cubin"])
        file.flush()
        tool = Path(nvidia).parent / "bin" / "cuobjdump"
        usage = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
        sass = subprocess.run([tool, "-sass", file.name], capture_output=True, text=True, check=True).stdout
    numbers = {name: int(re.search(rf"{name}:(\d+)", usage).group(1)) for name in ("REG", "STACK")}
    widths = Counter()
    for kind, modifiers in re.findall(r"\b(LDG|STG)\.E((?:\.\w+)*)", sass):
        width = 16 if ".128" in modifiers else 8 if ".64" in modifiers else 2 if "16" in modifiers else 1 if "8" in modifiers else 4
        widths[kind, width] += 1
    return {"kernel": kernel.fn.__name__, "registers": numbers["REG"], "stack": numbers["STACK"], "shared": binary.metadata.shared,
            "warps": binary.metadata.num_warps, "loads": {w: c for (k, w), c in sorted(widths.items()) if k == "LDG"},
            "stores": {w: c for (k, w), c in sorted(widths.items()) if k == "STG"}}
