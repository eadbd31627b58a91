"""One model on many processes, and in half the numbers: how a step runs, not what it computes.

    ∇ loss(batch) = mean over processes and micro-batches of ∇ loss(share)

Started as `torchrun --nproc-per-node 8 script.py`, each process takes its share of every batch. The task's loss must be a
mean over examples, as all of ours are; a penalty that isn't, is averaged over the shares. Parameters are whole on every
process (DistributedDataParallel), or each process keeps a part (FSDP2, `fully_shard`).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_map_only

from geolab.models.backbone import Layer
from geolab.checks import require_option


@dataclass(frozen=True)
class Engine:
    """How steps are computed."""

    precision: str = "float32"  # of the forward pass; "bfloat16": by autocast. Parameters, optimizer and sums stay float32
    accumulate: int = 1         # micro-batches a step, one after another, for batches that memory does not hold at once
    shard: bool = False         # each process keeps a part of the parameters, gradients and moments: FSDP2
    compile: bool = False       # torch.compile of the model, in place

    def __post_init__(self):
        require_option("precision", self.precision, ("float32", "bfloat16"))
        if self.accumulate < 1:
            raise ValueError(f"accumulate must be at least 1, got {self.accumulate}")

    def cast(self, device: torch.device) -> torch.autocast:
        """The context of a forward pass."""
        return torch.autocast(device.type, torch.bfloat16, enabled=self.precision == "bfloat16")


def join(device: str = "cpu") -> torch.device:
    """Join the processes that torchrun started, by gloo on "cpu" and NCCL on "cuda"; alone there is nothing to join.

    Returns: where this process's model belongs: a GPU of its own on "cuda". `fit` calls it with the model's device.
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
    """Which process this is, from 0: the one that writes and shows."""
    return dist.get_rank() if dist.is_initialized() else 0


def world() -> int:
    """How many processes there are."""
    return dist.get_world_size() if dist.is_initialized() else 1


def mean(*values: Tensor) -> list[float]:
    """Of scalars, over all processes, in one exchange: the same numbers everywhere, so that all decide alike."""
    stacked = torch.stack([value.detach() for value in values])
    if world() > 1:
        dist.all_reduce(stacked)
        stacked /= world()
    return stacked.tolist()


def parallel(model: nn.Module, engine: Engine) -> nn.Module:
    """What to call in place of `model` when training; all processes then start from the weights of the first.

    Sharding is in place: one group of parameters a Layer of the backbone, and the rest in the root's group, which is whole
    from forward to backward. The first and the last residual belong to the root's, being called outside their layer as
    well, by `expand` and `reduce`. In bfloat16 only the sublayers' matrices are exchanged in it: norms and residuals stay
    in float32, as under autocast, and make a group of their own.
    Raises: ValueError for shard without torchrun, or with a parameter that has no axes, which FSDP2 can't share out.
        Where parameters are whole, each must have a gradient in every step: DistributedDataParallel says so if not.
    """
    if engine.compile:
        model.compile()
    if not engine.shard:
        return DistributedDataParallel(model) if world() > 1 else model
    if not dist.is_initialized():
        raise ValueError("shard needs processes to share among, got one that torchrun did not start: "
                         "torchrun --nproc-per-node 8 script.py")
    from torch.distributed.device_mesh import init_device_mesh  # here: it would add a second to every import of geolab
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    for tensor in model.state_dict().values():
        dist.broadcast(tensor, 0)
    mesh = init_device_mesh(next(model.parameters()).device.type, (world(),))
    half = engine.precision == "bfloat16"
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32, cast_forward_inputs=False) if half else MixedPrecisionPolicy()
    for layer in [module for module in model.modules() if isinstance(module, Layer)]:
        outermost = layer.residual.first or layer.residual.last
        if outermost or half:
            fully_shard(layer.mix, mesh=mesh, mp_policy=policy)
        if not outermost:
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


@contextmanager
def exchange(model: nn.Module, on: bool) -> Iterator[None]:
    """Whether a backward pass inside sums gradients over processes: of the micro-batches of a step, the last one does."""
    if hasattr(model, "set_requires_gradient_sync"):  # FSDP2 gives it to the model that it shards
        model.set_requires_gradient_sync(on)
        yield
    elif isinstance(model, DistributedDataParallel) and not on:
        with model.no_sync():
            yield
    else:
        yield


# ---------------------------------------------------------------- checkpoints: one file, whatever the processes

def sharded(tensor: Tensor) -> bool:
    """Whether it is a DTensor, of which this process holds a part."""
    return hasattr(tensor, "full_tensor")


def whole(state: dict) -> dict:
    """A state dict with whole tensors for the first process; the others help, and get a part that they can't use."""
    def gather(tensor: Tensor) -> Tensor:
        full = tensor.full_tensor() if sharded(tensor) else tensor
        return full.cpu() if rank() == 0 else full.new_empty(0)
    return tree_map_only(Tensor, gather, state)


def load(model: nn.Module, optimizer: torch.optim.Optimizer, saved: dict) -> None:
    """Put whole tensors back: as they are, or the part that this process keeps. Others' weights are the first process's."""
    def like(tensor: Tensor, parameter: Tensor) -> Tensor:
        if not sharded(parameter) or tensor.shape != parameter.shape:  # a step count has no axes to share out
            return tensor
        from torch.distributed.tensor import distribute_tensor
        return distribute_tensor(tensor.to(parameter.device), parameter.device_mesh, parameter.placements)

    kept = model.state_dict()
    model.load_state_dict({name: like(tensor, kept[name]) for name, tensor in saved["model"].items()})
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    state = {index: {key: like(value, parameters[index]) for key, value in moments.items()}
             for index, moments in saved["optimizer"]["state"].items()}
    optimizer.load_state_dict({**saved["optimizer"], "state": state})


def random_states(device: torch.device) -> list[list[Tensor]]:
    """The state of the default generators, of the CPU and of the GPU, of every process."""
    mine = [torch.get_rng_state()] + ([torch.cuda.get_rng_state(device)] if device.type == "cuda" else [])
    if world() == 1:
        return [mine]
    every = [None] * world()
    dist.all_gather_object(every, mine)
    return every


def set_random_state(saved: list[list[Tensor]], device: torch.device) -> None:
    """This process's own; one that wasn't there keeps what its seed gave it."""
    if rank() < len(saved):
        torch.set_rng_state(saved[rank()][0])
        if device.type == "cuda" and len(saved[rank()]) > 1:
            torch.cuda.set_rng_state(saved[rank()][1], device)
