"""Stand-ins for other machines: this one with other instructions, threads, seeds or first weights.

A stand-in has environment variables for a process that has not imported PyTorch yet, and changes
that `apply` makes in it: seeds moved by a constant, first weights moved by one unit in the last
place, and training on a GPU.
"""

import json
import os
from typing import NamedTuple

VARIABLE = "GEOLAB_STANDIN"   # the changes as JSON, such as {"seeds": 1000, "ulp": 1, "cuda": 1}


class StandIn(NamedTuple):
    environment: dict[str, str] = {}   # PyTorch, MKL, oneDNN and OpenBLAS read it as they load
    changes: dict[str, int] = {}


NATIVE = StandIn()
SSE = {"ATEN_CPU_CAPABILITY": "default", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
       "ONEDNN_MAX_CPU_ISA": "SSE41", "OPENBLAS_CORETYPE": "Nehalem"}
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2", "OPENBLAS_CORETYPE": "Haswell"}
# Threads that spin while they wait take minutes for seconds beside other work: let them sleep.
THREADS = {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"}
STAND_INS = {
    "plain": NATIVE,
    "default": StandIn(SSE),
    "avx2": StandIn(AVX2),
    "two threads": StandIn(THREADS),
    "ulp 1": StandIn(changes={"ulp": 1}),
    "ulp 2": StandIn(changes={"ulp": 2}),
    "ulp 3": StandIn(changes={"ulp": 3}),
    "seeds +1000": StandIn(changes={"seeds": 1000}),
    "seeds +20000": StandIn(changes={"seeds": 20_000}),
}
CUDA = StandIn(changes={"cuda": 1})  # one more where there is a device


def stored_runs(count: int) -> list[StandIn]:
    """The machines of the stored runs, which differ in seeds, instruction set and first weights."""
    sets = (NATIVE.environment, AVX2, SSE)
    return [StandIn(sets[k % 3], {"seeds": 100_000 + 1000 * k, "ulp": k}) for k in range(count)]


def environment(stand_in: StandIn) -> dict[str, str]:
    """The environment of a new process that runs under the stand-in."""
    changes = {VARIABLE: json.dumps(stand_in.changes)} if stand_in.changes else {}
    return os.environ | stand_in.environment | changes


_shift: int | None = None  # of all seeds, once `move_seeds` was called


def apply() -> None:
    """Make the changes that the environment names, in this process. Without any, import nothing."""
    changes = json.loads(os.environ.get(VARIABLE, "{}"))
    if seeds := changes.get("seeds"):
        move_seeds(seeds)
    if draw := changes.get("ulp"):
        _move_first_weights(draw)
    if changes.get("cuda"):
        _train_on_cuda()


def move_seeds(shift: int) -> None:
    """Give every generator of PyTorch and NumPy that gets a seed another one: seed + shift.

    A later call replaces the shift of an earlier one.
    """
    global _shift
    first, _shift = _shift is None, shift
    if not first:
        return
    import numpy as np
    import torch

    def moved(seed):
        if isinstance(seed, (int, np.integer)):
            return int(seed) + (_shift or 0)
        return [moved(seed[0]), *seed[1:]] if isinstance(seed, (list, tuple)) else seed

    seed_all, default_rng = torch.manual_seed, np.random.default_rng
    random_state = np.random.RandomState

    class Generator(torch.Generator):
        def manual_seed(self, seed):
            return super().manual_seed(moved(seed))

    class RandomState(random_state):
        def __init__(self, seed=None):
            super().__init__(moved(seed))

    torch.Generator, np.random.RandomState = Generator, RandomState
    torch.manual_seed = torch.random.manual_seed = lambda seed: seed_all(moved(seed))
    np.random.default_rng = lambda seed=None: default_rng(moved(seed))


def _move_first_weights(draw: int) -> None:
    """Move each first weight of an optimiser by one unit in the last place: w becomes w (1 ± ε)."""
    import torch

    begin = torch.optim.Optimizer.__init__

    @torch.no_grad()
    def __init__(self, params, defaults):
        begin(self, params, defaults)
        generator = torch._C.Generator().manual_seed(draw)  # its own: other draws stay
        for weight in (weight for group in self.param_groups for weight in group["params"]):
            sign = torch.randint(2, weight.shape, generator=generator).to(weight) * 2 - 1
            weight.mul_(1 + sign * torch.finfo(weight.dtype).eps)

    torch.optim.Optimizer.__init__ = __init__


def _train_on_cuda() -> None:
    """Let `fit` train on the GPU and hand the model back on the CPU, where the cells look at it."""
    from geolab import training

    fit = training.fit

    def on_cuda(model, *arguments, **options):
        history = fit(model.cuda(), *arguments, **options)
        model.cpu()
        return history

    training.fit = on_cuda
