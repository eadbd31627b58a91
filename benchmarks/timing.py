"""Time and memory on a CUDA device, without the time that the host takes.

A function of some tensors is captured as two CUDA graphs, one of its forward pass and one of its
backward pass. Each graph runs over several input sets in a row, which together are larger than the
cache, and long enough that the time of a launch doesn't matter. Functions that are compared take
turns.
"""

import random
import subprocess
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from statistics import median, quantiles
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

Function = Callable[..., Tensor | tuple[Tensor, ...]]


class Passes(NamedTuple):
    """Two graphs. Replay `forward` before `backward`, which reads what the forward pass kept."""

    forward: torch.cuda.CUDAGraph
    backward: torch.cuda.CUDAGraph


def outputs_of(function: Function, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The function's outputs as a tuple, also if there is only one."""
    outputs = function(*inputs)
    return outputs if isinstance(outputs, tuple) else (outputs,)


def cotangents_of(outputs: Sequence[Tensor], seed: int = 0) -> list[Tensor]:
    """A random cotangent for each output, of the output's shape, dtype and device."""
    generator = torch.Generator(outputs[0].device).manual_seed(seed)
    return [torch.randn(y.shape, generator=generator, device=y.device).to(y.dtype) for y in outputs]


def gradients(outputs: Sequence[Tensor], inputs: Sequence[Tensor],
              cotangents: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The gradients with respect to all inputs that need one."""
    return torch.autograd.grad(outputs, [x for x in inputs if x.requires_grad], cotangents)


def captured(function: Function, sets: Sequence[Sequence[Tensor]],
             cotangents: Sequence[Tensor]) -> Passes:
    """The function on every input set, and its gradients, as graphs.

    Each backward pass frees what its forward pass kept, as in training, and its gradients are freed
    before the next ones are computed.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # compiling and one-time allocations happen here
        for _ in range(3):
            gradients(outputs_of(function, sets[0]), sets[0], cotangents)
    torch.cuda.current_stream().wait_stream(stream)
    passes = Passes(torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph())
    with torch.cuda.graph(passes.forward, stream=stream):
        outputs = [outputs_of(function, inputs) for inputs in sets]
    with torch.cuda.graph(passes.backward, pool=passes.forward.pool(), stream=stream):
        for inputs in sets:
            gradients(outputs.pop(0), inputs, cotangents)
    return passes


def recorded(run: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """Record the function's launches as a graph. It has run once before, to compile."""
    run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph


def copied(read: int, written: int, times: int) -> tuple[Callable[[], None], int]:
    """Return the replay of a graph with `times` copies (see `Copy`), and the bytes of one copy.

    The size of its programs is the fastest of BLOCKS.
    """
    from benchmarks.copies import BLOCKS, Copy  # which needs Triton

    copies = [Copy(read, written, "cuda", cache_bytes(), block) for block in BLOCKS]
    graphs = [recorded(partial(copy.run, times)) for copy in copies]
    seconds = turns({place: graph.replay for place, graph in enumerate(graphs)}, rounds=7)
    best = min(seconds, key=lambda place: median(seconds[place]) / copies[place].nbytes)
    return graphs[best].replay, copies[best].nbytes


Name = TypeVar("Name", bound=Hashable)


def turns(runs: Mapping[Name, Callable[[], object]], rounds: int, warm_up: int = 3,
          meanwhile: Callable[[], object] = lambda: None) -> dict[Name, list[float]]:
    """Seconds of each run in each round, between events on the device.

    In a round every run has one turn. The first `warm_up` rounds don't count. When all runs are on
    their way, and the device is at work, the host calls `meanwhile`.
    """
    marks = []
    for _ in range(warm_up + rounds):
        row = [torch.cuda.Event(enable_timing=True) for _ in range(len(runs) + 1)]
        row[0].record()
        for run, event in zip(runs.values(), row[1:], strict=True):
            run()
            event.record()
        marks.append(row)
    meanwhile()
    torch.cuda.synchronize()
    return {name: [row[i].elapsed_time(row[i + 1]) / 1e3 for row in marks[warm_up:]]
            for i, name in enumerate(runs)}


def cpu_turns(runs: Mapping[Name, Callable[[], object]], rounds: int, warm_up: int = 2,
              clock: Callable[[], float] = time.process_time) -> dict[Name, list[float]]:
    """Seconds of each run in each round, without a device; every round has its own order.

    By default they are CPU seconds of this process: other programs on the machine don't count.
    """
    order = random.Random(0)
    rows = []
    for _ in range(warm_up + rounds):
        row = {}
        for name in order.sample(list(runs), len(runs)):
            start = clock()
            runs[name]()
            row[name] = clock() - start
        rows.append(row)
    return {name: [row[name] for row in rows[warm_up:]] for name in runs}


def deciles(numbers: Sequence[float]) -> tuple[float, float]:
    """The first and the last decile; of a single number, this number."""
    found = quantiles(numbers, n=10) if len(numbers) > 1 else numbers
    return found[0], found[-1]


def cache_bytes() -> int:
    """The size of the device's L2 cache."""
    return torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size


CLOCKS = {"clocks.sm": "MHz", "clocks.mem": "MHz of memory", "power.draw": "W",
          "temperature.gpu": "°C"}


def clocks() -> dict[str, float]:
    """The clocks, the power and the temperature of the device now, if nvidia-smi tells them."""
    device = torch.cuda.get_device_properties(torch.cuda.current_device()).uuid
    try:
        said = subprocess.run(["nvidia-smi", f"--id=GPU-{device}", "--format=csv,noheader,nounits",
                               f"--query-gpu={','.join(CLOCKS)}"], capture_output=True, text=True,
                              check=True).stdout
        return dict(zip(CLOCKS.values(), map(float, said.split(",")), strict=True))
    except (OSError, subprocess.CalledProcessError, ValueError):
        return {}


def peaks(function: Function, inputs: Sequence[Tensor],
          cotangents: Sequence[Tensor]) -> tuple[int, int]:
    """The most bytes allocated during the forward pass, and during the backward pass.

    The inputs and the cotangents aren't counted.
    """
    def most() -> int:
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before

    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    outputs, forward = outputs_of(function, inputs), most()
    torch.cuda.reset_peak_memory_stats()
    gradients(outputs, inputs, cotangents)
    return forward, most()


def poison(share: float = 0.25) -> None:
    """Fill a share of the free memory with NaN, so that the next large allocations begin as NaN."""
    torch.cuda.empty_cache()
    numbers = int(torch.cuda.mem_get_info()[0] * share) // 4
    torch.full((numbers,), float("nan"), device="cuda")
