"""One model on many processes, and in half precision: how a step runs, not what it computes.

    ∇ loss(batch) = mean over processes and micro-batches of ∇ loss(share)

`torchrun --nproc-per-node 8 script.py` starts the processes, and each process takes its share of
every batch. The task's loss must be a mean over examples, as all of ours are. A penalty that isn't
such a mean is averaged over the shares. Every process keeps all parameters
(DistributedDataParallel), or each keeps a part of them (FSDP2, `fully_shard`).
"""

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from geolab.checks import require_count, require_option


@dataclass(frozen=True)
class Engine:
    """The options that decide how a step is computed.

    In "bfloat16" the forward pass runs under autocast; parameters, optimizer state and sums stay in
    float32. Micro-batches are for batches that memory can't hold at once.
    """

    precision: str = "float32"  # of the forward pass: "float32" or "bfloat16"
    accumulate: int = 1         # micro-batches per step, one after another
    shard: bool = False         # split parameters, gradients and moments over processes, by FSDP2
    compile: bool = False       # torch.compile of the model, in place

    def __post_init__(self):
        require_option("precision", self.precision, ("float32", "bfloat16"))
        require_count("accumulate", self.accumulate)
        require_option("shard", self.shard, (True, False))
        require_option("compile", self.compile, (True, False))

    def cast(self, device: torch.device) -> torch.autocast:
        """The context in which a forward pass runs."""
        return torch.autocast(device.type, torch.bfloat16, enabled=self.precision == "bfloat16")


def join(device: str = "cpu") -> torch.device:
    """Join the processes that torchrun started: by gloo on "cpu", by NCCL and gloo on "cuda".

    Returns: where this process's model belongs. On "cuda" each process has a GPU of its own.
        Without torchrun this is `device` itself, and there is nothing to join.
    `fit` calls this with the type of the model's device.
    """
    if not dist.is_torchelastic_launched():
        return torch.device(device)
    mine = torch.device(device)
    if mine.type == "cuda":
        mine = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(mine)
    if not dist.is_initialized():
        dist.init_process_group("cpu:gloo,cuda:nccl" if mine.type == "cuda" else "gloo")
    return mine


def rank() -> int:
    """The number of this process, from 0. Process 0 is the one that writes files and shows bars."""
    return dist.get_rank() if dist.is_initialized() else 0


def world() -> int:
    """The number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def mean(*values: Tensor) -> list[float]:
    """Average scalars over processes, in one exchange, so that all take the same branch."""
    stacked = torch.stack([value.detach() for value in values])
    if world() > 1:
        dist.all_reduce(stacked)
        stacked /= world()
    return stacked.tolist()


def barrier() -> None:
    """Wait until every process has come here. A single process does not wait."""
    if world() > 1:
        dist.barrier()  # by gloo, which `join` asks for on every device


def parallel(model: nn.Module, engine: Engine) -> nn.Module:
    """Return the module to call in place of `model` in training. All processes get process 0's
    weights.

    Sharding changes the model in place. Each Layer of the backbone is one group of parameters. All
    other parameters are the root's group, which stays whole from the forward to the backward pass.
    The first and the last residual belong to it, because the network calls their `expand` and
    `reduce` outside their layers. A residual that lends parameters to another layer belongs to it
    too. In bfloat16 only the matrices of sublayers travel in half precision: norms and residuals
    stay in float32, as under autocast, and form a group of their own.

    Raises: ValueError for `shard` without torchrun, or with a parameter that has no axis, since
        FSDP2 can't split it. Where parameters are whole, each must have a gradient in every step,
        or DistributedDataParallel raises RuntimeError.
    """
    if engine.compile:
        model.compile()
    if not engine.shard:
        return DistributedDataParallel(model) if world() > 1 else model
    if whole := [name for name, p in model.named_parameters() if p.ndim == 0]:
        raise ValueError("shard needs parameters with an axis to split, such as torch.empty(1) in "
                         f"place of torch.empty(()), got none in {', '.join(whole)}")
    if not dist.is_initialized():
        raise ValueError("shard needs processes to share among, got one that torchrun did not "
                         "start: torchrun --nproc-per-node 8 script.py")
    # imported here, since importing FSDP takes a second and models need not be loaded without it
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    from geolab.models.layers import Layer
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, 0)
    mesh = init_device_mesh(next(model.parameters()).device.type, (world(),))
    half = engine.precision == "bfloat16"
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, cast_forward_inputs=False)
    for layer in [module for module in model.modules() if isinstance(module, Layer)]:
        outer = layer.residual.first or layer.residual.last or layer.residual.lends
        if outer or half:
            fully_shard(layer.mix, mesh=mesh, mp_policy=policy if half else MixedPrecisionPolicy())
        if not outer:
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def exchange(model: nn.Module, on: bool) -> AbstractContextManager:
    """A context whose backward pass sums gradients over processes if `on`, and else leaves them on
    each process.

    It is on for the last micro-batch of a step only.
    """
    if hasattr(model, "set_requires_gradient_sync"):  # a method of models that FSDP2 shards
        model.set_requires_gradient_sync(on)
    alone = isinstance(model, DistributedDataParallel) and not on
    return model.no_sync() if alone else nullcontext()


# ---------------------------------------------------------------- what a checkpoint holds

def whole_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, dict]:
    """{"model": …, "optimizer": …}: whole tensors on the CPU, under the parameters' names.

    Every process calls this, since sharded tensors are gathered. Process 0 gets the two state
    dicts, the others get empty ones.
    """
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights, moments = get_state_dict(model, optimizer, options=options)
    return {"model": weights, "optimizer": moments}


def load_state(model: nn.Module, optimizer: torch.optim.Optimizer, saved: dict[str, dict]) -> None:
    """Load what `whole_state` returned on process 0: all of it, or this process's part.

    `saved` must be the same on every process. Its dictionaries are changed. The optimizer is AdamW.
    """
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_state_dict
    from torch.distributed.fsdp import FSDPModule
    moments = saved["optimizer"]["state"]
    for name, p in model.named_parameters():
        if name not in moments:  # without a gradient so far; AdamW starts from zeros as well
            moments[name] = {"step": torch.zeros(()), "exp_avg": torch.zeros(p.shape),
                             "exp_avg_sq": torch.zeros(p.shape)}
    options = StateDictOptions(full_state_dict=isinstance(model, FSDPModule))  # to be split
    set_state_dict(model, optimizer, model_state_dict=saved["model"],
                   optim_state_dict=saved["optimizer"], options=options)


def random_states(device: torch.device) -> list[list[Tensor]]:
    """The states of the default random generators of every process: the CPU's, and on "cuda" the
    GPU's.
    """
    mine = [torch.get_rng_state()]
    if device.type == "cuda":
        mine.append(torch.cuda.get_rng_state(device))
    every = [mine] * world()
    if world() > 1:
        dist.all_gather_object(every, mine)
    return every


def set_random_state(saved: list[list[Tensor]], device: torch.device) -> None:
    """Restore the random generators of this process. If `saved` has no entry for it, they stay as
    they are.
    """
    if rank() < len(saved):
        torch.set_rng_state(saved[rank()][0])
        if device.type == "cuda" and len(saved[rank()]) > 1:
            torch.cuda.set_rng_state(saved[rank()][1], device)
